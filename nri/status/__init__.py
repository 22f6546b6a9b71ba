"""What a bridge says of itself, for those who ask: the socket's client, and the judgement that probes use.

The documents are described in docs/status.md; the bridge makes them in ``nri.v1bridge``.
"""
