"""``make soak``: the bridge for a long time, with plugins one in five of whose answers is a fault."""
