"""Metrics: what the bridge of a node answers on its status socket, as series for Prometheus.

A process of its own asks the bridge, so the bridge stays small, and a scrape is never in the way of an event. This
package asks as every client of the socket does; ``nri.v1bridge`` knows nothing of it. docs/monitoring.md has the
table of all series.
"""
