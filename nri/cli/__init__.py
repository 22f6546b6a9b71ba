"""The ``nri`` command. One module for each verb; :mod:`nri.cli.entry` is where the process starts."""
