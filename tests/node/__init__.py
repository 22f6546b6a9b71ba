"""A whole machine of today, in an emulator: Debian 13 with systemd and cgroup v2, and what happens to it.

``make test-node`` makes its disk (``image``), copies the project and the installed tree onto a second one
(``payload``), boots it (``emulator``) and runs the scenarios inside (``guest``). Each folder of ``scenarios`` is a
machine of its own, each module in it a page of a runbook, and its ``kernel.txt``, if any, more of the kernel's
command line.
"""

CORE = "core"
"""The machine that runs the most important scenarios of all others."""
