"""The error of a result's changes."""

from __future__ import annotations

from nri.errors import NRIError


class AdjustError(NRIError):
    """A plugin's ``adjust`` or ``updates`` cannot be applied: it is in conflict, or the runtime lacks it.

    The message names the thing and the reason. Nothing of the result is applied.
    """
