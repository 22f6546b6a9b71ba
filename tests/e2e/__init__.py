"""End-to-end tests: real containerd, runc and crun, each in a place of its own that leaves nothing behind."""
