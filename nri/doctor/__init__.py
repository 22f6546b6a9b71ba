"""``nri doctor``: why do the plugins not run on this node?

It examines the engines, the bridge, the configuration, files and owners, and the log, reports each cause once with
the command that fixes it, and changes nothing. It runs ``containerd config dump``, ``crio config`` and ``journalctl``
instead of reading their files.
"""

from nri.doctor.examination import examine
from nri.doctor.node import FAULT, NOTE, OK, UNSEEN, Finding, Node

__all__ = ["FAULT", "NOTE", "OK", "UNSEEN", "Finding", "Node", "examine"]
