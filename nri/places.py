"""The default paths. Constants, and what follows from them; below all layers."""

DEFAULT_BIN_DIRS = ("/opt/nri/bin",)
"""Directories of the v0.1 plugins, as in the Go client."""

DEFAULT_CONF_DIR = "/etc/nri/resource.d"
"""Directory of the host configuration."""

DEFAULT_CONF_FILE = "/etc/nri/conf.json"
"""Host configuration that is read if the directory holds none."""

CONTAINERD_CONF_FILE = DEFAULT_CONF_FILE
"""The file whose plugins containerd runs itself: 1.6 for every container, 2.x for pod sandboxes."""

RUNTIME_OPTIONS_FILE = "/etc/nri/runtime.json"
"""The options of ``nri-runc``."""

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
"""Socket on which a runtime accepts v2 plugins."""

DEFAULT_RECORD_DIR = "/run/nri/v1bridge.record"
"""The record of all hosts: the configuration in use, and what each container has had. No reboot leaves it there."""


def beside(record_dir: str, ending: str) -> str:
    """Return the path of a file of the bridge beside its record, such as ``/run/nri/v1bridge.sock``."""
    return record_dir.removesuffix(".record") + ending


def in_record(host: str, id_: str) -> str:
    """Return the name of a container's file in the record, without its suffix, such as ``.hook.web``.

    An id that cannot be a file's name, or is too long for one, is replaced by a number and ``~``.
    """
    letters = id_
    for sign in ("-", "_", ".", "+"):
        letters = letters.replace(sign, "0")
    if letters.isascii() and letters.isalnum() and len(id_) <= 200:
        return f".{host}.{id_}"
    from binascii import crc32

    return f".{host}.{crc32(id_.encode('utf-8', 'surrogatepass')):08x}~"
