"""``make soak``: the bridge for a long time, with plugins that misbehave in one of five events."""
