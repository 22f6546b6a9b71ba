"""``python -m fuzz.guided TARGET SECONDS FOLDER``: run one target with atheris, which searches for inputs that reach
new code.

It needs the environment with atheris that ``tools/fuzz`` makes. FOLDER contains ``corpus``, which is kept between
runs, ``seeds``, from the target, and ``found``, with inputs that broke the invariant. libFuzzer prints the output,
and
``fuzz.session`` parses it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import sys

import atheris

with atheris.instrument_imports(include=["nri", "fuzz.targets"]):
    from fuzz import documents, targets

    TARGET = targets.load(sys.argv[1])

MAX_LENGTH = 4096
"""The maximum size of an input in bytes."""

SLOW = 20
"""Seconds after which an input is a finding; reading one takes milliseconds."""

MEMORY = 1024
"""Memory of the process in MiB above which an input is a finding."""


def main(seconds: int, folder: str) -> None:
    """Search for this time, then end the process; its status is not 0 if there is a finding."""
    logging.disable(logging.CRITICAL)
    corpus, seeds, broken = [os.path.join(folder, name) for name in ("corpus", "seeds", "found")]
    for place in (corpus, seeds, broken):
        os.makedirs(place, exist_ok=True)
    for seed in TARGET.SEEDS:
        _write(os.path.join(seeds, hashlib.sha256(seed).hexdigest()[:16]), seed)
    flags = [
        f"-max_total_time={seconds}",
        f"-timeout={SLOW}",
        f"-rss_limit_mb={MEMORY}",
        f"-max_len={MAX_LENGTH}",
        f"-artifact_prefix={broken}/",
        f"-dict={_dictionary(folder)}",
        "-print_final_stats=1",
    ]
    options = {"custom_mutator": _mutate} if hasattr(TARGET, "JSON") else {}
    atheris.Setup([sys.argv[0], *flags, corpus, seeds], _check, **options)
    atheris.Fuzz()


def _check(data: bytes) -> None:
    try:
        TARGET.check(data)
    except SystemExit as error:  # atheris would end the session
        raise AssertionError("the target tried to exit") from error


def _mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change values instead of bytes in half of the cases, if the input is JSON."""
    source = random.Random(seed)
    behind = 1 if hasattr(TARGET, "CHOICES") else 0
    if source.random() < 0.5:
        changed = data[:behind] + documents.mutate(data[behind:], source, 2)
        if changed != data and len(changed) <= max_size:
            return changed
    return bytes(atheris.Mutate(data, max_size))


def _dictionary(folder: str) -> str:
    words = getattr(TARGET, "WORDS", ()) or [word.encode() for word in documents.WORDS if word]
    path = os.path.join(folder, "words")
    lines = ["".join(f"\\x{byte:02x}" for byte in word) for word in words]
    _write(path, "".join(f'"{line}"\n' for line in lines).encode())
    return path


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main(int(sys.argv[2]), sys.argv[3])
