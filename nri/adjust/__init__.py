"""The changes that plugins ask for in answer to ``setup``, ``resize`` and ``delete``: ``adjust`` and ``updates``.

:mod:`.document` has the rules of their values as tables, :mod:`.fields` how the values of two plugins go together and
which runtimes know them. :class:`Changes` collects those of one chain for a :class:`Abilities`.
"""

from nri.adjust.abilities import Abilities, NRIAbilities, OCIAbilities
from nri.adjust.changes import Changes
from nri.adjust.errors import AdjustError

__all__ = ["Abilities", "AdjustError", "Changes", "NRIAbilities", "OCIAbilities"]
