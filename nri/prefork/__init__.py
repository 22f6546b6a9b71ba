"""Plugins that are loaded before they are asked: a server in the plugin, a pool in the host."""
