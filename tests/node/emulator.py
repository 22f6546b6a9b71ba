"""Boot the machine, follow what it prints, and take back its results.

A crash of the emulated kernel is no result of a scenario: the machine is booted again.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.node.image import Image

MEMORY = 3072  # MiB
CPUS = 4  # on any machine: scenarios name them
RESULTS_SIZE = 64 * 1024 * 1024
CRASHES = (
    "Kernel panic",
    "BUG: unable to handle",
    "Oops:",
    "rcu_sched self-detected stall",
    "watchdog: BUG: soft lockup",
)
ATTEMPTS = 3
BOOTS_WITHIN = 300.0  # seconds; it takes some 30. Seldom an emulated disk does not answer at all.


class CrashError(RuntimeError):
    """The emulated machine crashed or was too slow; the message has the end of its console."""


def run(
    image: Image,
    payload: Path,
    machine: str,
    only: str,
    folder: Path,
    *,
    kernel: str,
    timeout: float,
    show: Callable[[str], None],
) -> Path:
    """Boot a machine, run its scenarios, and return the folder with its results.

    :param machine: the folder of ``scenarios``.
    :param only: an expression for pytest's ``-k``, "" for all.
    :param folder: for the consoles and the results.
    :param kernel: more words for the kernel's command line.
    :param timeout: seconds for one attempt.
    :param show: called with each line that the scenarios print.
    """
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            _boot(
                image,
                payload,
                f"nri.machine={machine} nri.only={only} {kernel}",
                folder,
                timeout,
                show,
            )
        except CrashError as error:
            if attempt == ATTEMPTS:
                raise
            show(f"the emulated machine crashed, attempt {attempt} of {ATTEMPTS}: {error}")
        else:
            break
    results = folder / "results"
    results.mkdir()
    subprocess.run(["tar", "-xf", folder / "results.tar", "-C", results], check=True)
    (folder / "results.tar").unlink()
    return results


def _boot(
    image: Image,
    payload: Path,
    words: str,
    folder: Path,
    timeout: float,
    show: Callable[[str], None],
) -> None:
    results, console, lines = folder / "results.tar", folder / "console.txt", folder / "lines.txt"
    with results.open("wb") as file:
        file.truncate(RESULTS_SIZE)
    lines.touch()
    drives = [
        word
        for path, options in (
            (image.disk, ",snapshot=on"),
            (payload, ",snapshot=on"),
            (results, ""),
        )
        for word in ("-drive", f"file={path},format=raw,if=virtio{options}")
    ]
    kernel = f"root=/dev/vda rw console=ttyS0 panic=-1 quiet {words}"
    boot = ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", kernel, *drives]
    hardware = [
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "Nehalem",
        "-m",
        str(MEMORY),
        "-smp",
        str(CPUS),
    ]
    serial = [
        "-display",
        "none",
        "-nic",
        "none",
        "-serial",
        f"file:{console}",
        "-serial",
        f"file:{lines}",
    ]
    command = [*image.emulator(), *hardware, *boot, *serial]
    began = time.monotonic()
    boots_until = began + BOOTS_WITHIN
    with (folder / "emulator.txt").open("wb") as log, lines.open(errors="replace") as shown:
        environment = {"QEMU_MODULE_DIR": str(image.modules)}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment
        )
        try:
            rest, done = "", False
            while True:
                ended = process.poll() is not None
                text = rest + shown.read()
                *whole, rest = text.replace("\r", "").split("\n")
                for line in whole:
                    if line == "booted":
                        boots_until = math.inf
                    elif line == "reboots":
                        boots_until = time.monotonic() + BOOTS_WITHIN
                    elif line == "done":
                        done = True
                    elif line:
                        show(line)
                if ended:
                    break
                _raise_if_crashed(console)
                if time.monotonic() > boots_until:
                    raise CrashError(f"not booted after {BOOTS_WITHIN:.0f} s; {_end(console)}")
                if time.monotonic() > began + timeout:
                    raise CrashError(f"not done after {timeout:.0f} s; {_end(console)}")
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if not done:
        raise CrashError(f"it ended early; {_end(console)}; {_end(folder / 'emulator.txt')}")


def _raise_if_crashed(console: Path) -> None:
    if console.exists():
        text = console.read_text(errors="replace")
        for crash in CRASHES:
            if crash in text:
                raise CrashError(f"its kernel crashed: {_end(console)}")


def _end(file: Path) -> str:
    text = file.read_text(errors="replace") if file.exists() else ""
    return f"the end of {file.name}: " + "\n".join(text.splitlines()[-15:])
