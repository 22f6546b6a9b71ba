"""Processes that this project starts: spawn, wait, kill, reap, watch. Below all wings."""
