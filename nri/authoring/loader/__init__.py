"""Modules that take the place of parts of PyInstaller's loader in this project's executables, which start faster.

They are loaded before anything else, so they import only what the interpreter itself has, and no other module of nri.
A new version of PyInstaller may need other ones: the tests of the compiled executables show that.
"""
