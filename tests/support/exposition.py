"""Reads the text format with a parser that is not ours, prometheus_client's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from nri.cli.metrics import PREFIX, families
from tests.support import status_documents

if TYPE_CHECKING:
    from typing import Any

    Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

UP = PREFIX + "up"


def metrics() -> list[Metric]:
    """All metrics, of a document in which everything is known."""
    document = status_documents.degraded()
    document["runtime"] = status_documents.healthy()["runtime"]
    return list(families(document))


def name(metric: Metric) -> str:
    """The name of a metric as the text format has it."""
    return metric.name + "_total" if metric.type == "counter" else metric.name


def labels(metric: Metric) -> tuple[str, ...]:
    """The names of its labels."""
    return tuple(metric._labelnames)  # type: ignore[attr-defined] # noqa: SLF001 - not ours


def parse(text: bytes) -> Series:
    """The values by name and labels; no series comes twice, which Prometheus refuses."""
    found: Series = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def of(document: dict[str, Any] | None) -> Series:
    """The series of a status document, or of a bridge that has not answered."""
    found: Series = {(UP, frozenset()): float(document is not None)}
    for family in families(document) if document is not None else ():
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def value(series: Series, name: str, /, **labels: str) -> float | None:
    """The value of one series, without the prefix of its name; None if it is absent."""
    return series.get((PREFIX + name, frozenset(labels.items())))
