"""docs/api.md lists the packages with public names; each name has a docstring."""

import importlib
import inspect
import re
from pathlib import Path

PACKAGES = re.findall(r"^\| `(nri[\w.]*)`", (Path(__file__).parents[2] / "docs/api.md").read_text(), re.MULTILINE)


def test_every_public_name_is_there_and_documented() -> None:
    assert "nri.skel" in PACKAGES
    bare = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and not hasattr(value, "DESCRIPTOR"):
                bare += [] if inspect.getdoc(value) else [f"{package}.{name}"]
    assert bare == []
