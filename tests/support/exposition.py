"""Reads the text format with a parser that is not ours, prometheus_client's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from nri.metrics.page import render

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: bytes) -> Series:
    """The values by name and labels; no series comes twice, which Prometheus refuses."""
    found: Series = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def of(document: Mapping[str, Any] | None) -> Series:
    """The series of a status document."""
    return parse(render(document))


def value(series: Series, name: str, /, **labels: str) -> float | None:
    """The value of one series, without the prefix of its name; None if it is absent."""
    return series.get(("nri_v1bridge_" + name, frozenset(labels.items())))
