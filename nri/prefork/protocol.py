"""The protocol between a plugin's prefork server and a host's pool."""

VERSION = 5
"""The version of the protocol, which ``TYPE version`` tells."""
