"""The host's side of prefork: a pool of plugin servers and their workers."""
