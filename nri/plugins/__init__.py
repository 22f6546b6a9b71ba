"""The sample plugins that do real work, each a module or package whose ``main`` is the executable.

As in ``nri.skel``, nothing may be imported here that a plugin does not need at every start.
"""
