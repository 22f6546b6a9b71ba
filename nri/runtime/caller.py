"""Finds out whether the caller runs v0.1 plugins itself: containerd does, those of :data:`CONTAINERD_CONF_FILE`.

containerd 1.6 runs them for ``create`` and ``delete`` of the pods and containers of Kubernetes, 2.x for those of
pods, 1.7 not at all; none of them for containers of ``ctr`` or docker. So a plugin of that file is left to containerd
if

- the parent of this process is a shim, in the namespace ``k8s.io``, which is that of the CRI plugin alone,
- the container has the annotation of the CRI plugin that says whether it is a pod's sandbox,
- and the process that listens at the shim's address is a containerd of such a version. The version is containerd's
  own: a shim may be older than the containerd that now calls it.

If one of these cannot be found out, the plugin is run: rather twice than not at all.
"""

from __future__ import annotations

import os

from nri.client.oci import KIND_KEY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Version = tuple[int, int]

_TIMEOUT = 2.0  # seconds for containerd's answer to --version


def runs_plugins_itself(annotations: Mapping[str, str], parent: int, note: Callable[[str], None]) -> bool:
    """Return whether the caller runs the plugins of its own file for ``create`` and ``delete`` of a container.

    :param annotations: the container's.
    :param parent: the pid of the caller.
    :param note: reports what cannot be found out.
    """
    kind = annotations.get(KIND_KEY)
    address = address_of_shim(command_line(parent)) if kind in ("sandbox", "container") else ""
    if not address:
        return False
    try:
        version = _version_of_listener(address)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        note(f"the version of containerd at {address} is not known: {reason}; its plugins may run twice")
        return False
    return runs_for(version, is_sandbox=kind == "sandbox")


def runs_for(version: Version, *, is_sandbox: bool) -> bool:
    """Return whether a containerd of this version runs v0.1 plugins for a pod or container of Kubernetes."""
    return (1, 2) < version < (1, 7) or (version >= (2, 0) and is_sandbox)


def address_of_shim(words: list[str]) -> str:
    """Return the socket of the containerd that a shim works for, "" if the words are no shim's of ``k8s.io``."""
    if not words or not os.path.basename(words[0]).startswith("containerd-shim"):
        return ""
    given = {}
    for index, word in enumerate(words[1:], 1):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-"):
            given[name] = value if equals else (words[index + 1] if index + 1 < len(words) else "")
    return given.get("address", "") if given.get("namespace") == "k8s.io" else ""


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line, none if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read(65536)).split("\0")[:-1]
    except OSError:
        return []


def version_in(output: str) -> Version:
    """Return the version in what ``containerd --version`` prints: ``containerd PACKAGE VERSION COMMIT``.

    :raises ValueError: if there is none.
    """
    for word in output.split()[2:3]:
        numbers = word.removeprefix("v").split(".")
        if len(numbers) > 1 and numbers[0].isdigit() and numbers[1].isdigit():
            return int(numbers[0]), int(numbers[1])
    raise ValueError("it prints no version")


def _version_of_listener(address: str) -> Version:
    from nri.process.conversation import launch

    executable = f"/proc/{_listener(address)}/exe"  # the file that runs, also if an upgrade has replaced it
    import time

    done = launch(executable, ["containerd", "--version"], b"", time.monotonic() + _TIMEOUT, log=lambda line: None)
    return version_in(done.stdout.decode(errors="replace"))


def _listener(address: str) -> int:
    """Return the pid of the process that listens on a Unix socket."""
    import _socket  # the socket module would import enum and selectors

    from nri.peer import credentials

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        sock.connect(address.removeprefix("unix://"))
        pid, _ = credentials(sock)
    finally:
        sock.close()
    if not pid:
        raise ValueError("it is in another pid namespace")
    return pid
