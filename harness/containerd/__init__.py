"""A private, real containerd: its own directories, namespaces and cgroups, a CRI client, and other releases of it.

:mod:`.instance` starts it in an :mod:`.enclosure`; :mod:`.bridged` installs the bridge there; :mod:`.releases` finds
or downloads containerd of another generation. Needs root, runc and busybox-static.
"""
