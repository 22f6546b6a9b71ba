"""The owners and modes of files and directories that decide what runs as root on this node."""

from __future__ import annotations

import os
import stat

from nri import trust
from nri.doctor.bridges import OUTSIDE_OPTIONS
from nri.doctor.finding import Findings
from nri.doctor.node import LookError, Node
from nri.doctor.settings import PLUGIN_CONF_DIR, PLUGIN_DIR
from nri.places import CONTAINERD_CONF_FILE, DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, RUNTIME_OPTIONS_FILE

SUBJECT = "files and owners"

_TOPS = ("/etc/nri", "/opt/nri")
DIRECTORIES = (*_TOPS, DEFAULT_CONF_DIR, PLUGIN_CONF_DIR, *DEFAULT_BIN_DIRS, PLUGIN_DIR)
FILES = (CONTAINERD_CONF_FILE, RUNTIME_OPTIONS_FILE, OUTSIDE_OPTIONS)
"""What is looked at, with the files in the directories."""

MAX_FILES = 1000


def findings(node: Node, more: tuple[str, ...] = ()) -> Findings:
    """Return the findings of this subject.

    :param more: directories that the options of the bridge name.
    """
    found = Findings(SUBJECT)
    looked, wrong = 0, len(found)
    directories = list(dict.fromkeys([*DIRECTORIES, *more]))
    for path in [*directories, *FILES, *_files(node, directories, found)]:
        try:
            real = node.real(path)
            status = os.stat(real)
        except FileNotFoundError:
            if node.is_link(path) and path not in directories:
                found.fault("dangling", f"{path} is a link to a file that does not exist", f"rm {path}")
            continue
        except (OSError, LookError) as error:
            found.unseen("status", f"{path}: {error.strerror if isinstance(error, OSError) else error}")
            continue
        looked += 1
        _judge(node, path, real, status, found)
        if path not in directories and node.is_link(path):
            parent = os.path.dirname(real)
            _judge(node, node.inside(parent), parent, os.stat(parent), found)
    if len(found) == wrong:
        text = f"{looked} files and directories below {' and '.join(_TOPS)}: only root can change them"
        found.ok("trusted", text if looked else f"neither {' nor '.join(_TOPS)} exists: nri is not installed")
    return found


def _files(node: Node, directories: list[str], found: Findings) -> list[str]:
    files: list[str] = []
    for directory in directories:
        if directory in _TOPS:
            continue  # what matters below these is listed
        try:
            names = node.names(directory)
        except LookError as error:
            found.unseen("directory", str(error))
            continue
        files += [f"{directory}/{name}" for name in names if not name.startswith(".")][:MAX_FILES]
    return files


def _judge(node: Node, path: str, real: str, status: os.stat_result, found: Findings) -> None:
    wrong = trust.judge(status)
    if not wrong and node.is_own and status.st_uid != 0:
        wrong = f"is another user's (owner {status.st_uid}); expected it to be root's"
    if not wrong or any(finding.text.startswith(f"{path} ") for finding in found):
        return
    end = node.inside(real)
    where = path if end == path else f"{path} is a link to {end}, which"
    mode = stat.S_IMODE(status.st_mode) & 0o755
    mend = f"chown root:root {end}; chmod {mode:04o} {end}"
    found.fault("not-roots", f"{where} {wrong}: it is not used", mend)
