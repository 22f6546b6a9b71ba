"""Plugins that are loaded before a request comes: a server in the plugin, a pool in the host."""
