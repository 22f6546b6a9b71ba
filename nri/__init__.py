"""The Node Resource Interface (NRI) v0.1.

Plugin authors start at ``nri.skel``, programs that run plugins at ``nri.client``. This module imports nothing,
because each import adds to the start-up time of every plugin.
"""

# tools/stamp replaces these in a build, with the version of the tag. In the source it is the next release's.
__version__ = "0.1.0"
__commit__ = ""
__date__ = ""
