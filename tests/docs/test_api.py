"""docs/api.md lists the public names of the packages, and no others."""

import importlib
import re
from pathlib import Path

API = (Path(__file__).parents[2] / "docs/api.md").read_text()


def test_api_page_has_exactly_the_public_names() -> None:
    wrong = {}
    for heading, body in re.findall(r"^## (nri[\w.]*)\n(.*?)(?=^## |\Z)", API, re.MULTILINE | re.DOTALL):
        rows = re.findall(r"^\|(.*?)\|", body, re.MULTILINE)
        listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
        module = importlib.import_module(heading)
        messages = {
            name for name in module.__all__ if hasattr(getattr(module, name), "DESCRIPTOR")
        }  # of .proto files
        if difference := listed ^ (set(module.__all__) - messages):
            wrong[heading] = difference
    assert wrong == {}
