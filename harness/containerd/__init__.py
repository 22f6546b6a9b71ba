"""A private, real containerd: its own directories, namespaces and cgroups, a CRI client, and other releases of it.

``.instance`` starts it in an ``.enclosure``; ``.bridged`` installs the bridge there; ``.releases`` finds
or downloads containerd of another generation. Needs root, runc and busybox-static.
"""
