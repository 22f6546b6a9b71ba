"""Tools for people who write plugins, behind verbs of the ``nri`` command: only ``nri.cli`` imports this package.

A plugin never imports it, so it may use all of the standard library and of the host side.
"""
