"""Fuzzing: what reads bytes of somebody else's, each held to an invariant.

A target is a module of :mod:`fuzz.targets`. Its docstring states the invariant; ``check(data)`` raises
AssertionError where that is broken, and whatever else it lets out is a finding as well; ``SEEDS`` are inputs to
begin with, findings of the past among them; ``WORDS``, where it has them, are what its language is made of;
``JSON`` says that its input is a JSON document, behind the byte that :func:`fuzz.targets.split` takes off where it
has ``CHOICES``.

The same targets serve twice: ``make test`` feeds them seeds and what hypothesis makes of them, ``make fuzz`` lets
atheris look for inputs that reach new code (:mod:`fuzz.guided`, one target; :mod:`fuzz.session`, all of them).
``python -m fuzz TARGET FILE`` runs one input again, with nothing but the project installed.
"""
