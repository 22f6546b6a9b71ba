"""Looks at a node for ``nri doctor``: versions, runtimes, settings, files, the bridge. It changes nothing.

Each subject is a module with a function that returns its findings; :mod:`nri.doctor.examination` runs them. A finding
that is wrong has the line that mends it. Values of configurations that are not this project's are never part of a
finding, except for the keys that are listed in the module that reads them.
"""

from nri.doctor.examination import Examination, examine
from nri.doctor.finding import FAULT, NOTE, OK, UNSEEN, NodeFinding
from nri.doctor.node import Node

__all__ = ["FAULT", "NOTE", "OK", "UNSEEN", "Examination", "Node", "NodeFinding", "examine"]
