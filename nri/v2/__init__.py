"""NRI v2: the protocol of today's runtimes, and what a v2 plugin is built with.

- :mod:`nri.v2.api`: the messages, the table of events, conversions;
- :mod:`nri.v2.frames` and :mod:`nri.v2.mux`: several channels over one socket, and the threads that read it;
- :mod:`nri.v2.ttrpc`: calls on a channel;
- :mod:`nri.v2.stub`: a v2 plugin.
"""
