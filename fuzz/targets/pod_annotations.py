"""Annotations of pods: any text is an adjustment that the host accepts, or a short error that begins with the
annotation's key. Of a text that is accepted, PyYAML's own loader makes the same, but for numbers.

The first byte chooses what is asked for, the rest is the annotation.
"""

from __future__ import annotations

import yaml

from fuzz.targets import split
from nri.adjust.document import read_adjust
from nri.errors import NRIError
from nri.plugins import plain_yaml
from nri.plugins.device_injector import INJECTIONS, DeviceInjector
from nri.plugins.ulimit_adjuster import UlimitAdjuster
from nri.skel.process import answer_of
from nri.types.v1 import EXTENSIONS, Request, Spec

KEYS = ("ulimits.noderesource.dev/container.a", *[injection.keys[-1] for injection in INJECTIONS])
CHOICES = len(KEYS)
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
CONF = {"allow": {injection.kind: True for injection in INJECTIONS}}


def check(data: bytes) -> None:
    """Have the plugin act on one annotation."""
    choice, rest = split(data, CHOICES)
    key, text = KEYS[choice], rest.decode("utf-8", "replace")
    annotations = {key: text, "io.kubernetes.cri.container-name": "a"}
    plugin = DeviceInjector() if choice else UlimitAdjuster()
    conf = CONF if choice else {"allow": {"ulimits": True}}
    request = Request(
        state="setup", id="a", spec=Spec(annotations=annotations), conf=conf, extensions=EXTENSIONS
    )
    try:
        result = answer_of(plugin, request)
    except NRIError as error:
        assert str(error).startswith(key)
        assert len(str(error)) < 1000
    else:
        assert result.adjust is None or read_adjust(result.adjust) == result.adjust
    _compare(text)


def _compare(text: str) -> None:
    """Hold the values of YAML against those of PyYAML, where all of them are strings."""
    try:
        value = plain_yaml.load(text)
    except NRIError:
        return
    assert _texts(value) is None or _texts(value) == yaml.load(text, Loader=_LOADER)


def _texts(value: object) -> object:
    """Return the value if it consists of strings alone, else None."""
    inner = (
        value
        if isinstance(value, list)
        else list(value.values())
        if isinstance(value, dict)
        else None
    )
    if inner is None:
        return value if isinstance(value, str) else None
    return value if all(_texts(item) is not None for item in inner) else None


SEEDS = (
    b"\0- type: memlock\n  hard: 9\n  soft: 1\n",
    b"\1- path: /dev/a\n  type: c\n  major: 1\n  minor: 3\n  file_mode: 0644\n",
    b'\1[{"path": "/dev/a", "type": "c", "major": 1, "minor": 3}]',
    b"\2- source: /home\n  destination: /a\n  type: bind\n  options: [ro, rbind]\n",
    b"\3- vendor.com/class=device\n",
    b"\4- hostIf: eth0\n  Name: net0\n",
    b"\5net.core.somaxconn: 256\nkernel.msgmax: '1'\n",
    b"\6{mode: MPOL_BIND, nodes: 0-1, flags: [MPOL_F_STATIC_NODES]}",
    b"\7class: IOPRIO_CLASS_RT\npriority: 3\n",
    b"\x08policy: SCHED_FIFO\npriority: 10\n",
    b"\1- &a [*a]\n",
    b"\1- path: /dev/\n  type: c\n  major: 1\n  minor: 3\n",
)
WORDS = (
    b"&a ",
    b"*a",
    b"!!str ",
    b"- ",
    b"? ",
    b": ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"|\n",
    b">-\n",
    b"'",
    b'"',
    b"---\n",
    b"..",
    b"~",
)
