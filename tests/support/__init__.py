"""Support for tests: one module for each idea.

- a made-up host: ``host``, ``node`` (with the bridge), ``pods`` (a pod and a container of a runtime)
- ends of a connection: ``connected`` (ttRPC), ``runtime`` (a v2 runtime), ``v2_plugin`` (a v2 plugin)
- bytes on a connection: ``sent``, ``go_reader``, ``cutting``
- the machine: ``processes``, ``waiting``, ``blocked``, ``system_faults``, ``real_cgroups``, ``kernel_pod``,
  ``cgroup_versions``
"""
