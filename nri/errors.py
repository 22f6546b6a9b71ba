"""The root of every error that this project raises on purpose.

Below it errors are told apart by whose fault they are: ``nri.types.DecodeError`` (a document),
``nri.cgroups.CgroupError`` (the kernel or a path), ``nri.config.ConfigError`` (the host configuration) and
``nri.client.PluginError`` (a plugin).
"""


class NRIError(Exception):
    """An error whose message is meant for a person: it names the thing, what was found, what would be right."""


def printable(text: str) -> str:
    """``text`` fit for one line of a log or a terminal: control characters and lone surrogates are escaped."""
    if text.isprintable():
        return text
    return "".join([sign if sign.isprintable() else repr(sign)[1:-1] for sign in text])
