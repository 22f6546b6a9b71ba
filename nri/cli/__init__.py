"""The ``nri`` command. One module for each verb; ``nri.cli.entry`` is where the process starts."""
