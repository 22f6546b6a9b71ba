"""prometheus_client, of which this package uses the metric families and the text format.

prometheus_client also has what serves and pushes metrics over HTTPS, and imports ``ssl`` for that. The compiled
``nri`` has no OpenSSL (5 MB, and a library that every scanner of images looks at), and this package serves plain HTTP
by itself. So where ``ssl`` is missing, an empty module stands in for it while prometheus_client is imported.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

_NAMES = ("SSLContext", "TLSVersion", "PROTOCOL_TLS_CLIENT", "PROTOCOL_TLS_SERVER")  # used in signatures there


def _stand_in() -> ModuleType:
    module = ModuleType("ssl")
    for name in _NAMES:
        setattr(module, name, None)
    return module


def _load() -> None:
    try:
        import ssl  # noqa: F401
    except ImportError:
        sys.modules["ssl"] = _stand_in()
        try:
            importlib.import_module("prometheus_client")
        finally:
            del sys.modules["ssl"]


_load()

from prometheus_client import generate_latest  # noqa: E402 - only now can it be imported
from prometheus_client.metrics_core import (  # noqa: E402
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector  # noqa: E402

__all__ = [
    "Collector",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "Metric",
    "generate_latest",
]
