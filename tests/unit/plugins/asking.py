"""One run of a plugin that adjusts containers, for a pod of the namespace ``shop``."""

import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr
from typing import Any

from nri import skel
from nri.adjust.document import read_adjust
from nri.testing import invoke
from nri.types.v1 import EXTENSIONS, Request, Result, Spec

SHOP = {"io.kubernetes.pod.namespace": "shop"}
NAMED = {"io.kubernetes.cri.container-name": "web"}


def run(
    plugin: skel.Plugin,
    annotations: Mapping[str, str],
    conf: Any = None,
    *,
    parts: dict[str, Any] | None = None,
    **changes: Any,
) -> Result:
    """The result of ``setup`` for the container ``web`` with these annotations, and these other parts of a spec."""
    spec = Spec(annotations=NAMED | dict(annotations), **(parts or {}))
    given = {
        "state": "setup",
        "id": "id",
        "sandbox_id": "pod",
        "labels": SHOP,
        "spec": spec,
        "conf": conf,
    }
    given["extensions"] = EXTENSIONS
    request = Request(**given | changes)
    with redirect_stderr(io.StringIO()) as stderr:
        result = invoke(plugin, request)
    sys.stderr.write(stderr.getvalue())
    assert "Traceback" not in stderr.getvalue()
    if result.adjust is not None:
        assert read_adjust(result.adjust) == result.adjust  # the host accepts it as it is
    return result


def error(
    plugin: skel.Plugin, annotations: Mapping[str, str], conf: Any = None, **changes: Any
) -> str:
    """The error of a run that must fail: one short line, and nothing to apply."""
    result = run(plugin, annotations, conf, **changes)
    assert result.error
    assert result.adjust is None
    assert len(result.error) < 1000
    assert result.error.isprintable()
    return result.error
