"""``make demo``: the effect of the plugins of ``conf/resource.d`` on a container over its life, step by step."""

NAMESPACE = "kube-system"
"""The pods' namespace: the only one whose pods may set their class, by the sample configuration."""
