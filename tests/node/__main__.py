"""Run the scenarios: ``python -m tests.node [-k WORD] [MACHINE...]``, all machines by default.

The machine ``core`` is no folder: it runs the scenarios of all folders with the mark ``core``, on one containerd.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.node import ROOT
from tests.node import CORE, emulator, image, payload

SCENARIOS = Path(__file__).resolve().parent / "scenarios"
CACHE = ROOT / ".cache/node"
BUILD = ROOT / "build/node"
TIMEOUT = 2400.0  # seconds for one machine, which is 10 to 20 times slower than this one


def main(arguments: list[str]) -> int:
    """Make what is not there, run the machines, print a line for each scenario; return the exit status."""
    folders = sorted(
        path.name for path in SCENARIOS.iterdir() if path.is_dir() and path.name != "__pycache__"
    )
    known = [CORE, *folders]
    parser = argparse.ArgumentParser(prog="python -m tests.node", description=__doc__)
    parser.add_argument(
        "machines",
        nargs="*",
        metavar="MACHINE",
        help=f"of {', '.join(known)}; all but {CORE} by default",
    )
    parser.add_argument(
        "-k", dest="only", default="", metavar="WORD", help="only scenarios whose name has it"
    )
    parser.add_argument(
        "-j", dest="jobs", type=int, default=1, metavar="N", help="machines at a time (default 1)"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="run a machine that failed once more, and say so: an emulator may be too slow",
    )
    chosen = parser.parse_args(arguments)
    if unknown := sorted(set(chosen.machines) - set(known)):
        parser.error(f"no machine {', '.join(unknown)}: expected some of {', '.join(known)}")
    machines = chosen.machines or folders
    CACHE.mkdir(parents=True, exist_ok=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    disk = image.cached(CACHE)
    second = BUILD / "payload.img"
    payload.write(second, CACHE, disk.base)
    print(f"the machine's disks are ready after {time.monotonic() - started:.0f} s", flush=True)

    def run(machine: str) -> bool:
        succeeded = False

        def show(line: str) -> None:
            nonlocal succeeded
            succeeded = succeeded or line == "exit 0"
            print(f"{machine + ':':14}{line}", flush=True)

        began = time.monotonic()
        try:
            folder, words = BUILD / machine, kernel(machine)
            emulator.run(
                disk, second, machine, chosen.only, folder, kernel=words, timeout=TIMEOUT, show=show
            )
        except emulator.CrashError as error:
            show(f"failed: {error}")
            return False
        show(f"{'all is well' if succeeded else 'failed'}, {time.monotonic() - began:.0f} s")
        return succeeded

    def run_perhaps_again(machine: str) -> bool:
        if run(machine):
            return True
        if not chosen.again:
            return False
        print(f"{machine + ':':14}is run again", flush=True)
        return run(machine)

    with ThreadPoolExecutor(chosen.jobs) as pool:
        outcomes = dict(zip(machines, pool.map(run_perhaps_again, machines), strict=True))
    failed = [machine for machine, succeeded in outcomes.items() if not succeeded]
    print(
        f"{len(outcomes) - len(failed)} passed, {len(failed)} failed"
        + (f": {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


def kernel(machine: str) -> str:
    """Return what the machine's kernel and its systemd are told in addition: the words of a file of its folder."""
    file = SCENARIOS / machine / "kernel.txt"
    return " ".join(file.read_text().split()) if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
