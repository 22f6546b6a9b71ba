"""The root of every error that this project raises on purpose.

Below it errors are told apart by whose fault they are: ``nri.types.DecodeError`` (a document),
``nri.cgroups.CgroupError`` (the kernel or a path), ``nri.config.ConfigError`` (the host configuration) and
``nri.client.PluginError`` (a plugin).
"""


class NRIError(Exception):
    """An error whose message is meant for a person: it names the thing, what was found, what would be right."""


def escape(text: str) -> str:
    """``text`` fit for one line of a log or a terminal: control characters and lone surrogates are escaped."""
    if text.isprintable():
        return text
    return "".join([sign if sign.isprintable() else repr(sign)[1:-1] for sign in text])


def bounded(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` bytes of UTF-8; of a longer one the middle is left out.

    For peers, whose messages are counted in bytes and not in characters. A lone surrogate, which UTF-8 does not have,
    becomes a question mark.

    :param limit: bytes, at least 128: room for the end of the text and for its length.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    end = f"…{text[-16:]} ({len(data)} bytes)".encode("utf-8", "replace")
    return data[: limit - len(end)].decode("utf-8", "ignore") + end.decode()
