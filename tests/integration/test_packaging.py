"""What others get of this project: the wheel, and the tree that `make install` lays out."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from packaging.specifiers import SpecifierSet

from harness.json_schemas import PLACES
from nri.version import install
from tests.support.wheels import build, copy_sources, environment, patiently, run

ROOT = Path(__file__).parent.parent.parent
REQUEST = json.dumps({"version": "0.1", "state": "delete", "id": "a", "spec": None})


def tag(tree: Path, name: str) -> str:
    """Make a repository of the tree, with one commit and a tag; returns the commit."""
    who = ["-c", "user.name=a", "-c", "user.email=a"]
    for words in (["init"], ["add", "--all"], ["commit", "--message=a"], ["tag", name]):
        run("git", *who, *words, cwd=tree)
    return run("git", "rev-parse", "--short=12", "HEAD", cwd=tree).strip()


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    source = tmp_path / "source"
    copy_sources(source)
    head = tag(source, "v7.8.9")
    before = (source / "nri/__init__.py").read_text()
    wheel = build(source, tmp_path)
    python = environment(tmp_path / "empty", wheel) / "python"

    assert (source / "nri/__init__.py").read_text() == before
    assert wheel.name.startswith("nri-7.8.9-")
    assert run(tmp_path / "empty/bin/nri", "--version", cwd=tmp_path).startswith(
        f"nri 7.8.9 (commit {head}, "
    )
    metadata = "import nri, importlib.metadata as m; print(nri.__version__, m.version('nri'))"
    assert run(python, "-c", metadata, cwd=tmp_path) == "7.8.9 7.8.9\n"
    assert run(tmp_path / "empty/bin/nri", "check", "--conf-dir", tmp_path / "empty", cwd=tmp_path)
    refused = subprocess.run(
        [tmp_path / "empty/bin/nri", "build"], capture_output=True, text=True, check=False
    )
    assert refused.stderr == f"PyInstaller is not installed for {python}: {install('binaries')}\n"
    refused = subprocess.run(
        [tmp_path / "empty/bin/nri", "metrics"], capture_output=True, text=True, check=False
    )
    lacks = "metrics is not in this nri, which lacks prometheus_client"
    assert refused.stderr == f"Error: {lacks}: {install('metrics')}\n"
    answer = run(
        python,
        "-c",
        "from nri.plugins.clearcfs import main; main()",
        "invoke",
        stdin=REQUEST,
        cwd=tmp_path,
    )
    assert json.loads(answer) == {"plugin": "clearcfs", "version": "0.1", "error": ""}
    where = "import nri, nri.types; from pathlib import Path; print(Path(nri.__file__).parent)"
    package = Path(run(python, "-c", where, cwd=tmp_path).strip())
    assert (package / "py.typed").exists()
    for name in (
        "types/schemas/request",
        "config/schemas/host-config",
        "v1bridge/schemas/bridge-options",
    ):
        assert (package / f"{name}.schema.json").exists()
    testing = "from nri.testing import Pod; print(Pod().container('a').request('setup').spec.process['args'])"
    assert run(python, "-c", testing, cwd=tmp_path).startswith("[")
    fixtures = "import importlib.metadata as m; print([each.value for each in m.entry_points(group='pytest11')])"
    assert run(python, "-c", fixtures, cwd=tmp_path) == "['nri.pytest_plugin']\n"


def test_source_distribution_has_the_stamp(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "tools").mkdir(parents=True)
    (source / "nri").mkdir()
    for name in (
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "constraints.txt",
        "tools/stamp",
    ):
        shutil.copy(ROOT / name, source / name)
    shutil.copy(ROOT / "nri/__init__.py", source / "nri")
    head = tag(source, "v7.8.9")
    patiently(sys.executable, "-m", "build", "--sdist", "--outdir", tmp_path, source, cwd=tmp_path)
    run("tar", "-xzf", tmp_path / "nri-7.8.9.tar.gz", "-C", tmp_path)
    unpacked = tmp_path / "nri-7.8.9"
    assert f'__commit__ = "{head}"\n' in (unpacked / "nri/__init__.py").read_text()
    assert '__commit__ = ""\n' in (source / "nri/__init__.py").read_text()
    assert run(sys.executable, unpacked / "tools/stamp").startswith(
        f"version=7.8.9 commit={head} date="
    )


def test_portable_binaries_are_made_of_the_pinned_versions() -> None:
    pinned = set((ROOT / "constraints.txt").read_text().lower().replace("_", "-").split())
    hashed = set(
        re.findall(r"^[a-z-]+==[0-9.]+", (ROOT / "tools/portable.txt").read_text(), re.MULTILINE)
    )
    assert {each.partition("==")[0] for each in hashed - pinned} == {"setuptools"}, (
        "run tools/portable --pin"
    )


def test_pinned_versions_can_be_installed_on_debian_12() -> None:
    """Its Python is 3.11.2, and a package may ask for a later one of the same minor version."""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    names = [pin.partition("==")[0] for pin in pins if "==" in pin]
    wanted = {name: str(metadata(name).json.get("requires_python", "")) for name in names}
    assert {name: text for name, text in wanted.items() if "3.11.2" not in SpecifierSet(text)} == {}


@pytest.fixture(scope="module")
def destination(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run("tools/binaries")
    destination = tmp_path_factory.mktemp("installed")
    run("tools/install", destination)
    return destination


def test_installed_schemas_accept_the_samples(destination: Path) -> None:
    folder = destination / "opt/nri/lib/schemas"
    assert {path.name for path in folder.iterdir()} == {f"{name}.schema.json" for name in PLACES}
    for name, package in PLACES.items():
        source = ROOT / package.replace(".", "/") / "schemas" / f"{name}.schema.json"
        assert (folder / source.name).read_bytes() == source.read_bytes()

    files = [*(destination / "etc/nri/resource.d").iterdir(), *(ROOT / "conf/resource.d").iterdir()]
    files.append(ROOT / "deploy/systemd/v1bridge.json")
    assert len(files) > 5
    for file in files:
        value = json.loads(file.read_text())
        assert value["$schema"].startswith("file://")
        schema = json.loads(
            (destination / value["$schema"].removeprefix("file://").lstrip("/")).read_text()
        )
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(value)  # a reference to another file would fail here


def test_only_the_command_has_the_metrics(destination: Path) -> None:
    lib = (destination / "opt/nri/lib").resolve()
    programs = [path for path in lib.iterdir() if path.is_file() and os.access(path, os.X_OK)]
    names = {
        path.resolve().name
        for path in programs
        if b"prometheus_client.registry" in path.read_bytes()
    }
    none = destination / "none.sock"

    assert names == {"nri"}
    printed = run(destination / "usr/local/bin/nri", "metrics", "--socket", none)
    assert printed.splitlines()[-1] == "nri_v1bridge_up 0.0"


def test_every_binary_says_which_build_it_is(destination: Path) -> None:
    said = dict(pair.split("=") for pair in run("tools/stamp").split())
    commit = said["commit"].removesuffix("-dirty")
    build = (
        run(destination / "usr/local/bin/nri", "--version")
        .removeprefix("nri ")
        .partition(", Node")[0]
    )
    found = re.fullmatch(r"(\S+) \(commit (\w+)(-dirty)?(?:, \S+)?\)", build)
    assert found is not None, build
    assert found[1] == said["version"]
    if commit != "unknown":
        assert bool(found[3]) == ("-dirty" in said["commit"])
        assert found[2] == commit
    for plugin in ("clearcfs", "konfine"):
        about = json.loads(run(destination / "opt/nri/bin" / plugin, "version"))
        assert about["build"] == build
        assert about["version"] == said["version"]
    assert run(destination / "opt/nri/plugins/10-v1bridge", "--version") == f"v1bridge {build}\n"


def test_the_installed_tree_may_be_moved(destination: Path, tmp_path: Path) -> None:
    version = run("tools/stamp").split()[0].removeprefix("version=")
    moved = tmp_path / "elsewhere"
    shutil.copytree(destination, moved, symlinks=True)

    checked = run(
        moved / "usr/local/bin/nri",
        "check",
        "--json",
        f"--conf-dir={moved}/etc/nri/resource.d",
        f"--bin-dir={moved}/opt/nri/bin",
    )
    assert [(p["type"], p["version"], p["conf"]) for p in json.loads(checked)["plugins"]] == [
        ("konfine", version, "right"),
        ("clearcfs", version, "right"),
    ]
    links = [path for path in moved.rglob("*") if path.is_symlink()]
    assert links
    assert all(path.resolve().is_relative_to(moved) for path in links)


def test_the_compiled_command_makes_the_folder_of_a_new_plugin(tmp_path: Path) -> None:
    run("tools/binaries")
    made = run(ROOT / "dist/nri/nri", "new", "pinner", cwd=tmp_path)
    assert made.startswith("made pinner: ")
    assert made.endswith("pinner.py, pyproject.toml, test_pinner.py\n")
    files = [path for path in (tmp_path / "pinner").rglob("*") if path.is_file()]
    assert "@name@" not in "".join(path.read_text() for path in files)
    refused = subprocess.run(
        [ROOT / "dist/nri/nri", "simulate", "pinner"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        "this nri is a compiled executable, which can't load PLUGIN.py: "
    )


def test_the_compiled_command_builds_nothing_and_says_what_does() -> None:
    run("tools/binaries")
    done = subprocess.run(
        [ROOT / "dist/nri/nri", "build", "batch.py"], capture_output=True, text=True, check=False
    )
    why = "Error: build is not in this nri, which lacks nri.cli.build: pip install 'PATH[binaries]', where"
    assert (done.returncode, done.stderr.startswith(why)) == (1, True)
    modules = run(
        Path(sys.executable).with_name("pyi-archive_viewer"), "-r", "-b", "dist/nri/nri"
    ).split()
    assert "nri.cli.new" in modules
    left_out = ("PyInstaller", "nri.authoring.building", "nri.cli.build")
    assert [name for name in modules if name.startswith(left_out)] == []


def test_debian_package_works_where_it_is_unpacked(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    run("tools/binaries")
    first, needs, *_ = run("tools/deb").splitlines()
    package = ROOT / first.removeprefix("built ").partition(",")[0]
    version = run("tools/needed-libc").strip()
    assert needs == f"needs glibc {version} or later"
    assert f"libc6 (>= {version})" in run("dpkg-deb", "--field", package, "Depends")
    run("dpkg-deb", "--extract", package, tmp_path / "root")
    # What postinst does, as any user: tests/unit/deploy/test_deb.py has dpkg do it.
    scripts = tmp_path / "root/usr/lib/nri"
    run(scripts / "install-lib", scripts / "dist", tmp_path / "root/opt/nri")
    said = run(tmp_path / "root/usr/bin/nri", "--version")
    assert said.startswith("nri ")
    assert said.split()[1] == run("dpkg-deb", "--field", package, "Version").strip().replace(
        "~", ""
    )
    assert (
        json.loads(run(tmp_path / "root/opt/nri/lib/clearcfs", "invoke", stdin=REQUEST))["plugin"]
        == "clearcfs"
    )
