"""The text format of one scrape, from a status document or from its absence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.metrics.library import (
    Collector,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    generate_latest,
)
from nri.metrics.table import COUNTER, HISTOGRAM, TABLE, UP, UP_HELP, MetricRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The type of the text, for HTTP."""

INFINITE = "+Inf"


def render(document: Mapping[str, Any] | None) -> bytes:
    """Return the text format: of a status document, or of a bridge that has not answered."""
    return generate_latest(_Scrape(document))


class _Scrape(Collector):
    """The metrics of one document."""

    def __init__(self, document: Mapping[str, Any] | None) -> None:
        self._document = document

    def collect(self) -> Iterable[Metric]:
        """Return the metrics in the order of the table; those without a sample are left out."""
        found: list[Metric] = [GaugeMetricFamily(UP, UP_HELP, float(self._document is not None))]
        if self._document is not None:
            found += [_family(row, self._document) for row in TABLE]
        return [family for family in found if family.samples]


def _family(row: MetricRow, document: Mapping[str, Any]) -> Metric:
    if row.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(row.name, row.help, labels=row.labels)
        for labels, value in row.reading(document):
            buckets = [(str(bound), count) for bound, count in value.up_to]
            histogram.add_metric(labels, [*buckets, (INFINITE, value.number)], value.sum)
        return histogram
    kind = CounterMetricFamily if row.kind == COUNTER else GaugeMetricFamily
    family = kind(row.name, row.help, labels=row.labels)
    for labels, value in row.reading(document):
        family.add_metric(labels, value)
    return family
