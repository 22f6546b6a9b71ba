"""The node: what each pod and container has had, what it is to have, and the one way to bring it there.

All hosts use it: the bridge, ``nri hook``, ``nri-runc``. A host translates: it says which container a call is about,
which wish the call stands for, and what a refusal is to its caller.

- ``record``: a directory below ``/run/nri``: the facts about each pod or container, the configuration in use, and the
  options in use. One function writes, one reads.
- ``in_use``: which files of the host configuration count, and which options.
- ``compare``: what is due for a container, from its facts and the configuration in use. It is pure.
- ``reconcile``: the only function that runs plugins for a container.

``nri hook`` imports these modules while a container's start waits, so they import little.
"""
