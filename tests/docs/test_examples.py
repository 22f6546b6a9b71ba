"""The examples of README.md, docs/ and deploy/: every code block is run or checked, page by page, from top to bottom.

A page has a directory of its own, which stands in for the node's root: ``nri`` looks for /etc/nri and /opt/nri in it,
and it is the working directory. The sample plugins are in its /opt/nri/bin. What the blocks say decides:

- ``json`` must be something that this project reads, and is read by what reads it;
- ``python`` is run, each block by itself;
- ``console`` has commands after ``$ `` (a backslash continues one), each followed by what it prints, stderr included.
  ``…`` stands for any text, on a line by itself for any lines, and two blanks for more of them. A command that fails
  is followed by ``$ echo $?``;
- ``toml`` must be TOML;
- ``yaml`` is a part of a pod, whose annotations our plugins read;
- ``sh``, ``c`` and ``go`` have a name, and are left for the commands to compile and run;
- ``text`` is neither code nor data; ``status-page`` and ``pod-page`` are printed for the page's documents, and what
  test_log.py and test_wire.py know by its name, they check;
- a name after the language, as in ``json /etc/nri/resource.d/10.conf``, writes the block to that file first, and a
  Python block with a name is left for the commands to run;
- ``<!-- not run: reason -->`` before a block exempts it.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from harness import json_schemas
from nri.cli.status import page as status_page
from nri.cli.status import pod_page
from nri.client import spec_from_oci
from nri.config import ConfigError, load
from nri.config.plugin_conf import check_conf
from nri.plugins.clearcfs import ClearCFS
from nri.plugins.device_injector import DeviceInjector
from nri.plugins.hook_injector import HookInjector
from nri.plugins.hook_injector.hook_files import read_file
from nri.plugins.konfine import EXCLUSIVE, RESOURCE, Konfine
from nri.plugins.logger import Logger
from nri.plugins.qos import QoS
from nri.plugins.ulimit_adjuster import UlimitAdjuster
from nri.runc.options import load as load_runtime_options
from nri.skel import Plugin
from nri.skel.process import answer_of, schema_of
from nri.types.v1 import EXTENSIONS, Request, Result, Spec
from nri.v1bridge import BridgeOptions
from tests.support import page_examples, status_documents

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "deploy/README.md",
    ROOT / "deploy/monitoring/README.md",
]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n+)?```(?P<language>\w*) ?(?P<name>\S*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PLUGINS: list[type[Plugin]] = [
    ClearCFS,
    Konfine,
    Logger,
    DeviceInjector,
    HookInjector,
    UlimitAdjuster,
    QoS,
]
NEEDED = {"other-languages.md": {"cc": "gcc", "jq": "jq", page_examples.JANSSON: "libjansson-dev"}}
"""By page: the programs and files that its commands need, and the Debian package of each."""
END = "--- end of this command's output, status"


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Block(NamedTuple):
    """A code block, and where it stands."""

    where: str
    reason: str | None
    language: str
    name: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    found = list(BLOCK.finditer(text))
    assert text.count("```") == 2 * len(found), (
        f"{page.name}: a fence that is not at the start of its line"
    )
    for match in found:
        line = text.count("\n", 0, match.start("language")) + 1
        yield Block(f"{page.name}:{line}", **match.groupdict())


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory that stands in for the node's root."""
    node, tools = tmp_path / "node", tmp_path / "tools"
    for directory in (tools, node / "opt/nri/bin", node / "etc/nri"):
        directory.mkdir(parents=True)
    # A plugin's environment is the same for all, so what it is run by must know where this tree is.
    executable(tools / "python", f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    places = {
        "--conf-dir": "etc/nri/resource.d",
        "--conf-file": "etc/nri/conf.json",
        "--bin-dir": "opt/nri/bin",
    }
    # The verbs that have no such options.
    others = "simulate*|bridge*|metrics*|build*|conformance*|doctor*|new*|runtime*|status*"
    cases = [
        f'case "$verb $*" in [!-]*{name}*|{others}|-*) ;; *) set -- "{name}={node}/{place}" "$@" ;; esac\n'
        for name, place in places.items()
    ]
    nri = Path(sys.executable).with_name("nri")
    executable(
        tools / "nri", f'#!/bin/sh\nverb=$1; shift\n{"".join(cases)}exec "{nri}" "$verb" "$@"\n'
    )
    for plugin in PLUGINS:
        module = f"nri.plugins.{plugin.type.replace('-', '_')}"
        code = f"from {module} import main\nmain()\n"
        executable(node / "opt/nri/bin" / plugin.type, f"#!{tools}/python\n{code}")
    return node


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_examples_of_a_page_are_true(page: Path, node: Path) -> None:
    for program, package in NEEDED.get(page.name, {}).items():
        page_examples.need(program, package)
    for block in blocks(page):
        if block.reason:
            continue
        file = node / block.name.lstrip("/")
        if block.name:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
        if block.language == "json":
            check_json(block, file if block.name else node / "unnamed.json")
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "yaml":
            check_pod(block)
        elif block.language == "python" and not block.name:
            run_python(block, node)
        elif block.language == "console":
            run_console(block, node)
        else:
            is_source = block.language in ("python", "sh", "c", "go") and block.name
            assert is_source or block.language == "text", (
                f"{block.where}: {block.language!r} is not checked"
            )


def check_json(block: Block, file: Path) -> None:
    """Hold a document against what reads it; which that is, its keys tell."""
    value = json.loads(block.text)
    for keys, check in KINDS:
        if keys <= value.keys():
            file.write_text(block.text)
            try:
                check(value, file)
            except (AssertionError, ValueError, ConfigError) as error:
                pytest.fail(f"{block.where}: {error}")
            return
    pytest.fail(
        f"{block.where}: no document that this project reads has the keys {', '.join(value)}"
    )


def check_host_configuration(_: Any, file: Path) -> None:
    for plugin in load("", str(file)).plugins:
        for known in PLUGINS:
            if plugin.type == known.type:
                assert not (faults := check_conf(plugin, schema_of(known()))), faults


def check_request(value: Any, file: Path) -> None:
    json_schemas.validator("request").validate(value)
    assert json.loads(Request.from_json(file.read_bytes()).to_json()) == value, (
        "it is written in another way"
    )


def check_result(value: Any, file: Path) -> None:
    json_schemas.validator("result").validate(value)
    assert json.loads(Result.from_json(file.read_bytes()).to_json()) == value, (
        "it is written in another way"
    )


def check_settings(_: Any, file: Path) -> None:
    """The bridge's settings are right, or wrong where the page means to show that: then its name is wrong.json."""
    faults = BridgeOptions.of_text(file.read_text())[1]
    assert bool(faults) == (file.name == "wrong.json"), faults


def check_hooks_file(value: Any, file: Path) -> None:
    """A hook of this project is one that is deployed; of another one, hook-injector can read the file."""
    if value["hook"]["path"].endswith("/nri"):
        assert value in [
            json.loads(file.read_text()) for file in (ROOT / "deploy/hooks.d").iterdir()
        ], "not deployed"
    else:
        read_file(str(file))


def check_pod(block: Block) -> None:
    """A pod's annotations are each what a plugin acts on; one without any requests the device plugin's resource."""
    pod = yaml.safe_load(block.text)
    if "annotations" not in pod["metadata"]:
        (container,) = pod["spec"]["containers"]
        assert (
            {RESOURCE}
            <= container["resources"]["requests"].keys()
            == container["resources"]["limits"].keys()
        )
        return
    name = {"io.kubernetes.cri.container-name": "web"}
    for key, value in pod["metadata"]["annotations"].items():
        request = Request(
            state="setup",
            id="a",
            spec=Spec(annotations={**name, key: value}),
            extensions=EXTENSIONS,
        )
        results = []
        for plugin in (DeviceInjector, UlimitAdjuster):
            allow = schema_of(plugin())["properties"]["allow"]["properties"]
            results.append(
                answer_of(plugin(), request.replace(conf={"allow": dict.fromkeys(allow, True)}))
            )
        is_konfines = key.partition("/")[0] == EXCLUSIVE and value.isdigit()
        assert is_konfines or any(result.adjust for result in results), (
            f"{block.where}: {key}: no plugin knows it"
        )


def check_runtime_options(_: Any, file: Path) -> None:
    file.parent.chmod(0o755)
    assert not (fault := load_runtime_options(str(file)).fault), fault


def check_status_document(value: Any, _: Path) -> None:
    if "bridge" not in value:
        assert pod_page(value)
        return
    expected = status_documents.healthy()
    assert value.keys() == expected.keys()
    for part in ("bridge", "runtime", "configuration", "lateCreates", "log"):
        assert value[part].keys() == expected[part].keys(), part
    for part in ("plugins", "events"):
        assert value[part][0].keys() == expected[part][0].keys(), part
    assert status_page(value)


KINDS = [
    ({"protocol"}, check_status_document),
    ({"plugins"}, check_host_configuration),
    ({"ociVersion", "bundle"}, lambda value, _: Path(value["bundle"]).relative_to("/")),
    ({"linux"}, lambda value, _: spec_from_oci(value)),
    ({"state", "id"}, check_request),
    ({"plugin", "version"}, check_result),
    ({"hook", "stages"}, check_hooks_file),
    ({"logLevel"}, check_settings),
    ({"deadline"}, check_runtime_options),
]


def test_status_pages_are_printed_for_the_documents_beside_them() -> None:
    page = list(blocks(ROOT / "docs/status.md"))
    documents = [
        json.loads(block.text) for block in page if block.language == "json" and not block.name
    ]
    (status,) = [document for document in documents if "bridge" in document]
    (pod,) = [document for document in documents if "containers" in document]
    shown = {block.name: block.text.splitlines() for block in page if block.language == "text"}
    assert shown["status-page"] == status_page(status)
    assert shown["pod-page"] == pod_page(pod)


def environment(node: Path) -> dict[str, str]:
    path = [str(node.parent / "tools"), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
    return {
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(ROOT),
        "HOME": str(node),
        "LANG": "C.UTF-8",
        "COLUMNS": "80",
    }


def run_python(block: Block, node: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", block.text]
    done = subprocess.run(
        command, cwd=node, env=environment(node), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block.where}: {done.stderr}"


def run_console(block: Block, node: Path) -> None:
    """Run the commands in one shell, as somebody who types them does, and compare what each prints."""
    typed = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    assert typed and block.text.startswith("$ "), f"{block.where}: no command"
    script = "".join(
        f'{command}\nstatus=$?; printf "\\n{END} $status\\n"; (exit $status)\n'
        for command, _ in typed
    )
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=node,
        env=environment(node),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = re.split(rf"\n{END} (\d+)\n", done.stdout.replace(str(node), ""))
    for number, (command, expected) in enumerate(typed):
        output, status = printed[2 * number : 2 * number + 2]
        output = output.rstrip("\n") + "\n" if output.strip() else ""
        shown = f"{block.where}: $ {command}\n"
        assert matches(output, expected), f"{shown}printed\n{output}expected\n{expected}"
        asked = number + 1 < len(typed) and typed[number + 1][0] == "echo $?"
        assert status == "0" or asked, f"{shown}failed, exit status {status}"


def matches(output: str, expected: str) -> bool:
    # How wide a column is depends on the directory that stands in for the root.
    output, expected = (re.sub("  +", "  ", text) for text in (output, expected))
    pattern = re.escape(expected.rstrip("\n") + "\n" if expected.strip() else "")
    pattern = re.sub(r"^…\\\n", r"(?:.*\\n)*", pattern, flags=re.MULTILINE)
    return re.fullmatch(pattern.replace("…", ".*"), output) is not None
