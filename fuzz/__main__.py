"""``python -m fuzz TARGET [FILE...]``: run a target on the inputs in these files, or on its seeds."""

from __future__ import annotations

import sys
import traceback

from fuzz import targets


def main(argv: list[str]) -> int:
    """Run the target; return 1 if an input breaks the invariant, 2 for a wrong command line, else 0."""
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: python -m fuzz TARGET [FILE...]\ntargets: {' '.join(targets.names())}")
        return 0 if argv else 2
    try:
        target = targets.load(argv[0])
        inputs = [(path, _read(path)) for path in argv[1:]]
    except (LookupError, OSError) as error:
        print(
            f"fuzz: {error.args[0] if isinstance(error, LookupError) else error}", file=sys.stderr
        )
        return 2
    broken = 0
    for name, data in inputs or [
        (f"seed {number}", seed) for number, seed in enumerate(target.SEEDS)
    ]:
        try:
            target.check(data)
        except BaseException:  # any exception is a finding, SystemExit too
            broken += 1
            traceback.print_exc()
            print(f"{name}: broken by {data!r}")
        else:
            print(f"{name}: holds")
    return 1 if broken else 0


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
