"""``nri doctor``: why do the plugins not run on this node?

It looks at the engines, the bridges, the configuration, and who can change them, and reports each finding with the
command that fixes it. It changes nothing. It runs ``containerd config dump`` and ``crio config`` instead of reading
their files.
"""

from nri.doctor.node import FAULT, NOTE, OK, UNSEEN, Finding, Node
from nri.doctor.rules import examine

__all__ = ["FAULT", "NOTE", "OK", "UNSEEN", "Finding", "Node", "examine"]
