"""The sample plugins that do real work, each a package whose ``__main__`` is the executable.

Banned here, as in :mod:`nri.skel`: whatever a plugin does not need at every start.
"""
