"""``nri-runc``: an OCI runtime that runs the chain around the real one, runc or crun.

An engine (podman, docker, CRI-O, containerd) calls it in place of the real runtime, with the same command line. Most
commands are handed over at once (exec), so ``.entry`` and what it imports load next to nothing; the modules of the
commands that run plugins are imported when such a command comes. None of them imports click, jsonschema or ``json``.
"""
