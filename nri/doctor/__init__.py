"""``nri doctor``: why do the plugins not run on this node?

It looks at the engines, the bridge, the configuration, files and owners, and the log, as an operator would, and names
for each cause the command that mends it. It changes nothing. What other programs know it asks them: ``containerd
config dump``, ``crio config``, ``journalctl``.
"""

from nri.doctor.examination import examine
from nri.doctor.node import FAULT, NOTE, OK, UNSEEN, Finding, Node

__all__ = ["FAULT", "NOTE", "OK", "UNSEEN", "Finding", "Node", "examine"]
