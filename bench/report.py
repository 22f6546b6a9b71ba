"""The table: each figure beside a reference of the same run, since a machine that is slow today is slow for both."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.node import BINARIES


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure.

    :param reference: what it is compared with, in the same unit; None: it is a reference itself.
    :param of: what the reference is.
    :param goal: the ratio that is not to be exceeded; None where there is none.
    """

    name: str
    figure: float
    unit: str
    reference: float | None = None
    of: str = ""
    goal: float | None = None

    @property
    def ratio(self) -> float | None:
        """Of the figure to its reference."""
        return self.figure / self.reference if self.reference else None

    @property
    def verdict(self) -> str:
        """Whether the goal is reached."""
        if self.goal is None or self.ratio is None:
            return ""
        return "holds" if self.ratio <= self.goal else "MISSED"


def machine() -> str:
    """What this was measured on."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = {line.partition(":")[2].strip() for line in file if line.startswith("model name")}
    return (
        f"{datetime.date.today().isoformat()}, {', '.join(sorted(models)) or platform.machine()}, "
        f"{os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}"
    )


def lines(title: str, rows: list[Row]) -> list[str]:
    """A part of the table, in Markdown, so that it can be put into a page as it is."""
    found = [f"| {title} | figure | reference | ratio | goal | |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        reference = "" if row.reference is None else f"{_number(row.reference)} ({row.of})"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        goal = "" if row.goal is None else f"{row.goal:g}"
        figure = f"{_number(row.figure)} {row.unit}"
        found.append(f"| {row.name} | {figure} | {reference} | {ratio} | {goal} | {row.verdict} |")
    return found


def save(path: Path, parts: dict[str, list[Row]]) -> None:
    """All figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {
        title: [asdict(row) | {"ratio": row.ratio, "verdict": row.verdict} for row in part]
        for title, part in parts.items()
    }
    path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")


def binaries(scratch: Path) -> Path:
    """The compiled plugins, and the one in C; copies, which are ours whoever owns the checkout."""
    if not (BINARIES / "clearcfs").exists():
        raise SystemExit("dist/nri is not built; run: make binaries")
    directory = scratch / "nri"
    shutil.copytree(BINARIES, directory, symlinks=True)
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit(
            "no C compiler for the reference plugin; install one (Debian: apt-get install gcc libc6-dev)"
        )
    source = Path(__file__).with_name("noop.c")
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", directory / "noop", source], check=True)
    for name in ("clearcfs2", "clearcfs3"):  # a chain of three different ones
        (directory / name).symlink_to("clearcfs")
    return directory


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 1 else f"{value:.4g}"
