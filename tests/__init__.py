"""All tests; a package, so that they can share what they are built from."""
