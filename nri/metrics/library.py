"""prometheus_client, of which this package uses the metric families and the text format.

prometheus_client also has what serves and pushes metrics over HTTPS, and imports ``ssl`` for that. The compiled
``nri`` has no OpenSSL (5 MB, and a library that every scanner of images looks at), and this package serves plain HTTP
by itself. So where ``ssl`` is missing, an empty module stands in for it while prometheus_client is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType

_NAMES = ("SSLContext", "TLSVersion", "PROTOCOL_TLS_CLIENT", "PROTOCOL_TLS_SERVER")  # used in signatures there


def _stand_in() -> ModuleType:
    module = ModuleType("ssl")
    for name in _NAMES:
        setattr(module, name, None)
    return module


try:
    import ssl
except ImportError:
    sys.modules["ssl"] = _stand_in()
    try:
        import prometheus_client
    finally:
        del sys.modules["ssl"]
else:
    del ssl
    import prometheus_client

from prometheus_client import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString as go_number

__all__ = [
    "Collector",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
    "Metric",
    "generate_latest",
    "go_number",
    "prometheus_client",
]
