"""The plugin's side of prefork: a server that has the plugin loaded, and forks a worker for each request."""
