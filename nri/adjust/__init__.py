"""The changes that plugins ask for in answer to ``setup``, ``resize`` and ``delete``: ``adjust`` and ``updates``.

``.document`` has the rules of their values as tables, ``.fields`` how the values of two plugins go together and
which runtimes know them. ``Changes`` collects those of one chain for a ``Abilities``.
"""

from nri.adjust.changes import Abilities, AdjustError, Changes, NRIAbilities, OCIAbilities

__all__ = ["Abilities", "AdjustError", "Changes", "NRIAbilities", "OCIAbilities"]
