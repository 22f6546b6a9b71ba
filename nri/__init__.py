"""The Node Resource Interface (NRI) v0.1.

Plugin authors start at :mod:`nri.skel`, programs that run plugins at :mod:`nri.client`. Nothing is imported
here: a plugin executable pays for every module that it loads, at every start.
"""

# In a build tools/stamp replaces these three: the version is the tag's. In the source it is the next release's.
__version__ = "0.1.0"
__commit__ = ""
__date__ = ""
