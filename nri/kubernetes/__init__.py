"""CPUs that the scheduler counts: konfine's exclusive CPUs as a resource of the node, and as its topology.

``nri device-plugin`` runs beside the kubelet of each node. ``cpus`` computes what konfine can give alone, and what is
free; ``devices`` offers that to the kubelet (device plugin API v1beta1); ``topology`` writes it as the node's
NodeResourceTopology; ``agent`` looks again and again, and knows what is wrong. Nothing else imports this package,
whose libraries are the extra ``kubernetes``.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # each fault is one line of our own
