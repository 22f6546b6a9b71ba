"""Processes that this project starts: spawn, wait, kill, reap, watch. The layers above use it.

The meaning of a plugin's output does not belong here: see ``nri.client``. ``nri hook`` loads ``.conversation``
and ``.watchdog`` before a container starts, so neither they nor what they import may import subprocess, logging,
threading, signal, dataclasses, typing, re or enum; ``.subreaper`` may.
"""
