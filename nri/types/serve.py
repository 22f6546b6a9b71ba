"""The words of ``TYPE serve``, with which a host keeps a plugin running: docs/spec.md, "Residents".

The host starts the plugin with a control socket (SOCK_SEQPACKET) as its stdin. A message is a word, and where it has
an argument a blank and the argument.
"""

from __future__ import annotations

VERSION = 1
"""Version of ``serve``, which ``TYPE version`` prints as ``resident``."""

READY = b"ready"
"""From the plugin: it waits for a request."""

INVOKE = b"invoke"
"""From the host: a request. With it come three descriptors, its stdin, stdout and stderr."""

ENDED = b"ended"
"""From the plugin: it has answered. The argument is the exit status that ``TYPE invoke`` would have, in digits."""

CHANGED = b"changed"
"""From the plugin, instead of ``ready``: the request has changed the process, which ends. The argument says what."""

REFUSED = b"refused"
"""From the plugin, instead of the first ``ready``: it cannot be a resident, and ends. The argument is the reason."""

MAX_MESSAGE = 4096
"""Bytes of a message at most."""
