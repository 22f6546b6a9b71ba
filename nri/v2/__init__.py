"""NRI v2: the protocol of today's runtimes, and what a v2 plugin is built with.

- ``nri.v2.api``: the messages, the table of events, conversions;
- ``nri.v2.frames`` and ``nri.v2.mux``: several channels over one socket, and the threads that read it;
- ``nri.v2.ttrpc``: calls on a channel;
- ``nri.v2.stub``: a v2 plugin.
"""
