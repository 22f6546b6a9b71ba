"""The base class of every error that this project raises on purpose, and functions for texts in messages.

Its subclasses tell whose fault it is: see "Errors" in docs/architecture.md.
"""


class NRIError(Exception):
    """An error whose message is meant for people: it names the thing, what was found, and what would be right."""


def reason_of(error: Exception) -> str:
    """Return the text of an error; that of an OSError without its number and file, which the caller names."""
    return str(getattr(error, "strerror", None) or error)


def escape(text: str) -> str:
    """Return ``text`` for one line of a log or terminal, with control characters and lone surrogates escaped."""
    if text.isprintable():
        return text
    return "".join([sign if sign.isprintable() else repr(sign)[1:-1] for sign in text])


def bounded(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` bytes of UTF-8; the middle of a longer text is left out.

    For peers that limit messages in bytes, not in characters. A lone surrogate, which UTF-8 does not have, becomes a
    question mark.

    :param limit: bytes, at least 128, to have room for the end of the text and for its length.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    end = f"…{text[-16:]} ({len(data)} bytes)".encode("utf-8", "replace")
    return data[: limit - len(end)].decode("utf-8", "ignore") + end.decode()
