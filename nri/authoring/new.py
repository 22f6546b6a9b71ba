"""Making the folder of a new plugin from a template.

A template is a folder of texts in ``nri/authoring/templates``. ``@name@`` stands for the plugin's name, ``@class@``
for its class, ``@module@`` for its module. The folder is made beside its place and then moved there: it is complete,
or not there.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
import tempfile
from importlib.resources import files
from typing import NamedTuple

from nri.authoring.source import SourceError
from nri.config.entries import MAX_TYPE_LENGTH, is_type_name
from nri.types.gojson import shorten

_TOOLS = ("iniconfig", "mypy", "packaging", "pluggy", "pygments", "pytest")
TAKEN = frozenset(
    (
        *("nri", "click", "conftest", "google", "jsonschema", "setup", "test", "yaml"),
        *_TOOLS,
        *sys.stdlib_module_names,
        *keyword.kwlist,
    )
)
"""Names that no module can have, or of modules that a plugin's module would hide."""


class Kind(NamedTuple):
    """A kind of plugin that ``nri new`` makes."""

    option: str  # on the command line; "" for none
    check: str  # the command that checks it after a build


def _kind(option: str, conf: str) -> Kind:
    return Kind(option, f"nri conformance dist/@name@/@name@ --conf '{conf}'")


KINDS = {
    "bare": _kind("", '{"greeting": "welcome"}'),
    "annotations": _kind("--reads annotations", '{"namespaces": ["default"]}'),
    "cgroup": _kind("--writes cgroup", '{"weight": 50}'),
    "annotations-cgroup": _kind(
        "--reads annotations --writes cgroup", '{"weights": {"low": 50}, "namespaces": ["default"]}'
    ),
    "container": _kind("--adjusts container", '{"env": {"GREETING": "hello"}}'),
    "v2": Kind("--v2", "nri simulate --v2 dist/@module@/@module@"),
}
"""By the names of their templates."""

_NAMES = {
    "plugin.py": "{module}.py",
    "test_plugin.py": "test_{module}.py",
    "entry.conf": "10-{name}.conf",
    "test.yml": ".github/workflows/test.yml",
}


def make(name: str, template: str, directory: str) -> list[str]:
    """Make the folder ``directory/name``; return the names of its files.

    :param template: one of ``KINDS``.
    :raises SourceError: the name cannot be one of a plugin, or the folder cannot be made.
    """
    if not is_type_name(name):
        expected = f"letters, digits and . _ -, beginning with a letter or digit, {MAX_TYPE_LENGTH} at most"
        raise SourceError(f"{shorten(name)!r} cannot be a plugin's name: expected {expected}")
    place = os.path.join(directory, name)
    if os.path.lexists(place):
        raise SourceError(
            f"{place} exists: expected a name for which there is no file or folder yet"
        )
    texts = _texts(template)
    used = re.findall(r"\w+", "\n".join(texts.values()))
    class_ = class_name(name)
    class_ = f"{class_}Plugin" if class_ in used else class_
    words = {
        "check": KINDS[template].check,
        "name": name,
        "class": class_,
        "module": module_name(name),
    }
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name[:40]}-", dir=directory) as beside:
            made = os.path.join(beside, "made")
            os.mkdir(made)
            names = [_fill(text, made, words) for text in texts.items()]
            os.rename(made, place)
    except OSError as error:
        raise SourceError(
            f"{place} cannot be made: {error.strerror}; expected a folder to write to"
        ) from error
    return sorted(names)


def class_name(name: str) -> str:
    """Return a plugin's class: ``cpu-pinner`` is ``CpuPinner``."""
    joined = ""
    for word in re.split(r"[\W_]+", name):
        joined += word[:1].upper() + word[1:]
    if joined[0].isalpha() and not keyword.iskeyword(joined):
        return joined
    return f"Plugin{joined}"


def module_name(name: str) -> str:
    """Return a plugin's module: its name where that can be imported, and hides nothing else."""
    module = re.sub(r"\W", "_", name).lower()
    if module in TAKEN or module[0].isdigit() or module.startswith("test_"):
        return f"plugin_{module}"
    return module


def _texts(template: str) -> dict[str, str]:
    """Return the texts of a template by their names: those that all have, and its own."""
    templates = files("nri.authoring").joinpath("templates")
    sources = [*templates.joinpath("common").iterdir(), *templates.joinpath(template).iterdir()]
    return {file.name.removesuffix(".txt"): file.read_text("utf-8") for file in sources}


def _fill(text: tuple[str, str], folder: str, words: dict[str, str]) -> str:
    source, content = text
    name = _NAMES.get(source, source).format(**words)
    for word, value in words.items():
        content = content.replace(f"@{word}@", value)
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "x", encoding="utf-8") as file:
        file.write(content)
    return name
