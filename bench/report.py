"""The tables: each figure with a reference of the same run, since a slow machine is slow for both."""

from __future__ import annotations

import datetime
import json
import os
import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure.

    :param reference: the value to compare it with, in the same unit; None if the figure is a reference itself.
    :param of: the name of the reference.
    :param goal: the maximum ratio; None without one.
    """

    name: str
    figure: float
    unit: str
    reference: float | None = None
    of: str = ""
    goal: float | None = None

    @property
    def ratio(self) -> float | None:
        """The ratio of the figure to its reference."""
        return self.figure / self.reference if self.reference else None

    @property
    def verdict(self) -> str:
        """``holds`` or ``MISSED``; "" without a goal."""
        if self.goal is None or self.ratio is None:
            return ""
        return "holds" if self.ratio <= self.goal else "MISSED"


def machine() -> str:
    """Return a line about this machine."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = {line.partition(":")[2].strip() for line in file if line.startswith("model name")}
    return (
        f"{datetime.date.today().isoformat()}, {', '.join(sorted(models)) or platform.machine()}, "
        f"{os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}"
    )


def lines(title: str, rows: list[Row]) -> list[str]:
    """Return a table in Markdown."""
    table = [
        f"| {title} | figure | reference | ratio | goal | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        reference = "" if row.reference is None else f"{_number(row.reference)} ({row.of})"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        goal = "" if row.goal is None else f"{row.goal:g}"
        figure = f"{_number(row.figure)} {row.unit}"
        table.append(f"| {row.name} | {figure} | {reference} | {ratio} | {goal} | {row.verdict} |")
    return table


def save(path: Path, parts: dict[str, list[Row]]) -> None:
    """Write all figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {
        title: [asdict(row) | {"ratio": row.ratio, "verdict": row.verdict} for row in part]
        for title, part in parts.items()
    }
    path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value < 1 else f"{value:.4g}"
