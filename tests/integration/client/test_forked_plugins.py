"""This project's plugins in forked processes: their output is that of new processes, byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.forking import ROOT, forked, started

PLUGINS = ["clearcfs", "konfine", "logger", "device_injector", "hook_injector", "ulimit_adjuster", "qos"]
CONF = {plugin: {"mountinfo": "/dev/null"} for plugin in ("clearcfs", "konfine")}
"""Confs of the plugins that look for a cgroup: it must not be looked for on this machine."""

TIME = re.compile(r'"time":"[^"]*"')  # in what the logger writes

RECORDED = [
    ROOT / f"nri/testing/recorded/containerd-{name}.json"
    for name in ("1.6.20-native.container-create", "1.7.24-adapter.container-delete")
]
BROKEN = '{"version": "0.1", "state": 7}'


@pytest.mark.parametrize("plugin", PLUGINS)
def test_output_is_that_of_a_new_process(plugin: str, tmp_path: Path) -> None:
    script = tmp_path / plugin
    script.write_text(
        f"import runpy, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"runpy.run_module('nri.plugins.{plugin}.__main__', run_name='__main__')\n"
    )
    recorded = [json.dumps(json.loads(path.read_text()) | {"conf": CONF.get(plugin)}) for path in RECORDED]
    for request in (BROKEN, *recorded):
        own, new = forked(script, stdin=request), started(script, request)
        for outcome in (own, new):
            outcome["stderr"] = TIME.sub("", outcome["stderr"])
        assert {key: own[key] for key in new} == new, request
        assert new["stdout"] or new["stderr"]
