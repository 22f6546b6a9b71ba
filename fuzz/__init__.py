"""Fuzzing of all parsers of untrusted input: each has an invariant that must hold for any bytes.

A target is a module of ``fuzz.targets``. Its docstring states the invariant. ``check(data)`` raises AssertionError
when the invariant is broken; any other exception is a finding as well. ``SEEDS`` are the first inputs, and include
past findings. ``WORDS``, if any, are the tokens of the input's language. ``JSON`` marks an input that is a JSON
document, after the first byte if the target has ``CHOICES`` (see ``fuzz.targets.split``).

``make test`` runs the targets on their seeds and on inputs that hypothesis derives from them. ``make fuzz`` lets
atheris search for inputs that reach new code (``fuzz.guided`` for one target, ``fuzz.session`` for all).
``python -m fuzz TARGET FILE`` runs one input again, and needs only the project itself.
"""
