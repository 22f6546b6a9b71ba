"""The made-up machines of ``nri.testing.machines``, for tests, benchmarks and the demonstration."""

from nri.testing.machines import MACHINES, make, topology

__all__ = ["MACHINES", "make", "topology"]
