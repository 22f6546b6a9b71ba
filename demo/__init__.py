"""``make demo``: what the plugins of ``conf/resource.d`` do to a container over its life, step by step."""
