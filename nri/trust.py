"""Trust: only root and our own user may be able to change the files that we run and the files that configure us.

For a path this module checks: the file itself, at the end of all links; the directory that contains it; and the
directory that contains each link on the way, also of a link in the middle of the path, and of one that another link
leads to. The directories above these are not judged.
"""

from __future__ import annotations

import errno
import os

from nri.errors import NRIError

MAX_LINKS = 40
"""Links on the way of one path at most, the same as in the kernel."""

UNCHECKED = (
    "owners and modes of plugins and configuration are not checked; "
    "whoever can write to one of them decides what is run here"
)
"""The warning that is given where the check is switched off."""

ROOTLESS = (
    "this is a user namespace (rootless), where files of the node's root are nobody's: give it plugins and "
    "configuration of your own user, or --no-check-owner"
)
"""The advice for files that have no owner in a user namespace."""

_NOBODY = 65534  # overflowuid, user_namespaces(7): whoever has no user in the namespace
EVERYBODY = ["0", "0", "4294967295"]


def judge(status: os.stat_result) -> str:
    """Return the fault in the owner and mode of a file or directory, with the right values, or "".

    It must belong to root or to our effective user. No other user may write to it, even in a sticky directory, and no
    group except root's and our own.
    """
    user = os.geteuid()
    mode = status.st_mode & 0o7777
    by_group = bool(mode & 0o020)
    by_other_group = by_group and status.st_gid not in (0, os.getegid())
    if mode & 0o002 or by_other_group:
        fault = "is writable by others"
    elif status.st_uid not in (0, user):
        fault = "is another user's"
    else:
        return ""
    group = f", group {status.st_gid}" if by_group else ""
    whose = "root's" if user == 0 else f"root's or user {user}'s"
    right = f"expected it to be {whose}, and mode {mode & 0o755:04o}"
    if status.st_uid == _NOBODY and _is_rootless():
        rootless = f"; {ROOTLESS}"
    else:
        rootless = ""
    return f"{fault} (mode {mode:04o}, owner {status.st_uid}{group}); {right}{rootless}"


def _is_rootless() -> bool:
    """Return whether this process is in a user namespace that has other users than the node's."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return file.read().split() != EVERYBODY
    except OSError:
        return False


def judge_path(path: str, status: os.stat_result) -> str:
    """Return the first fault at ``path``, beginning with the path at fault, or "" without a fault.

    :param status: the status of the file that ``path`` leads to.
    :raises OSError: when one of the directories can't be looked at, or there are more than ``MAX_LINKS`` links.
    """
    if wrong := judge(status):
        return f"{path} {at_end(path)}{wrong}"
    for directory in directories(path):
        if wrong := judge(os.stat(directory)):
            return f"{directory} {wrong}"
    return ""


def make_private(directory: str) -> None:
    """Make a directory with mode 0700, with those above it, if it is not there.

    :raises NRIError: it is no directory, or others can write to it.
    :raises OSError: it cannot be made or looked at.
    """
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise NRIError(f"{error.filename} is no directory") from None
    if wrong := judge_path(directory, os.stat(directory)):
        raise NRIError(wrong)


def directories(path: str) -> list[str]:
    """Return the directories that contain the links on the way of ``path``, then the directory of its end; each once.

    Raises as ``follow`` does.
    """
    end, named_in = follow(path)
    return [*dict.fromkeys([*named_in, os.path.dirname(end)])]


def follow(path: str) -> tuple[str, list[str]]:
    """Follow ``path`` as the kernel does; return its end, and the directory that contains each link: absolute paths.

    It is not an error if the end does not exist: the text of a link in /proc need not be a path.

    :raises OSError: when a part can't be looked at, or there are more than ``MAX_LINKS`` links.
    """
    place = "/" if path.startswith("/") else os.getcwd()
    left = _parts(path)
    named_in: list[str] = []
    while left:
        part = left.pop()
        if part == "..":
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, part)
        try:
            target = os.readlink(here) if _is_link(here) else ""
        except FileNotFoundError:
            if left:
                raise
            target = ""
        if not target:
            place = here
            continue
        named_in.append(place)
        if len(named_in) > MAX_LINKS:
            raise OSError(
                errno.ELOOP, f"more than {MAX_LINKS} links lead from one to the next", path
            )
        place = "/" if target.startswith("/") else place
        left += _parts(target)
    return place, named_in


def at_end(path: str) -> str:
    """Return the beginning of a message about the end of a link, or "" if ``path`` is not a link."""
    try:
        if _is_link(path):
            return f"is a link to {follow(path)[0]}, which "
        return ""
    except OSError:
        return ""


def _is_link(path: str) -> bool:
    return os.lstat(path).st_mode & 0o170000 == 0o120000


def _parts(path: str) -> list[str]:
    """Return the parts of a path in reverse order."""
    parts = [part for part in path.split("/") if part and part != "."]
    parts.reverse()
    return parts
