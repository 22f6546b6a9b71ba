"""Support for the tests of plugins."""
