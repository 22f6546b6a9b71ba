"""`nri doctor` beside a real containerd of each generation: what it says of the settings is what containerd reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.containerd.bridged import configure
from harness.containerd.enclosure import CommandFailedError
from harness.containerd.instance import Containerd, Release
from tests.e2e import ROOT

pytestmark = pytest.mark.runtime

CODE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from nri.cli.entry import main; main()"
NRI = '[plugins."io.containerd.nri.v1.nri"]'
CREDENTIALS = '\n[plugins."io.containerd.grpc.v1.cri".registry.configs."example.org".auth]\n  password = "hunter2"\n'
CLEARCFS = {"type": "clearcfs"}


def diagnose(containerd: Containerd) -> dict[str, Any]:
    """What `nri doctor --json` prints in the enclosure, without findings that are as they should be."""
    command = [sys.executable, "-c", CODE, "doctor", "--json"]
    try:
        output = containerd.enclosure.run(*command)
    except CommandFailedError as error:
        assert error.code == 1, error
        assert error.stderr == ""
        output = error.stdout
    assert "hunter2" not in output
    found: dict[str, Any] = json.loads(output)
    assert found["ok"] == (faults(found) == [])
    assert texts(found, "failed", "unseen") == []
    return found


def faults(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in found["findings"] if finding["level"] == "fault"]


def texts(found: dict[str, Any], *codes: str) -> list[str]:
    return [finding["text"] for finding in found["findings"] if finding["code"] in codes]


def fixes(found: dict[str, Any]) -> list[str]:
    return [finding["fix"] for finding in found["findings"] if finding["level"] == "fault"]


def rewrite(containerd: Containerd, old: str, new: str) -> Path:
    path = containerd.enclosure.root / "config.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def version(release: Release) -> str:
    return ".".join(map(str, release.version))


@pytest.fixture
def bridged(containerd: Containerd) -> Iterator[Containerd]:
    """A containerd that has launched the bridge, with a plugin; what a test changes of its files is changed back."""
    config, link = (
        containerd.enclosure.root / "config.toml",
        containerd.enclosure.opt_nri / "plugins/10-v1bridge",
    )
    text, target = config.read_text(), os.readlink(link)
    configure(containerd, CLEARCFS)
    yield containerd
    config.write_text(text)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def test_node_with_a_launched_bridge_is_well(bridged: Containerd) -> None:
    rewrite(bridged, NRI, f"{CREDENTIALS}\n{NRI}")
    found = diagnose(bridged)
    assert faults(found) == []
    name = f"containerd {version(bridged.release)}"
    assert f"{name}: the bridge, launched as /opt/nri/plugins/10-v1bridge" in texts(found, "way")
    assert f"{name} has the socket /var/run/nri/nri.sock" in texts(found, "socket")


def test_nri_that_is_off_is_found(bridged: Containerd) -> None:
    file = rewrite(bridged, "disable = false", "disable = true")
    found = diagnose(bridged)
    assert faults(found) == ["nri-off"]
    assert fixes(found)[0].startswith(f"set disable = false in {NRI} of {file}")


def test_missing_version_is_a_fault_where_it_disables_nri(bridged: Containerd) -> None:
    number = "2" if bridged.release.version < (2,) else "3"
    file = rewrite(bridged, f"version = {number}\n", "")
    found = diagnose(bridged)
    if bridged.release.version < (2,):
        assert faults(found) == ["nri-off"]
        assert f"{file}, whose first line must be version = 2" in fixes(found)[0]
    else:
        assert faults(found) == []


def test_a_configuration_that_containerd_refuses_is_found(bridged: Containerd) -> None:
    rewrite(bridged, "disable = false", 'disable = "no"')
    assert faults(diagnose(bridged)) == ["refused"]


def test_disabled_connections_are_a_fault_without_a_bridge(bridged: Containerd) -> None:
    rewrite(bridged, "disable_connections = false", "disable_connections = true")
    assert faults(diagnose(bridged)) == []
    (bridged.enclosure.opt_nri / "plugins/10-v1bridge").unlink()
    assert faults(diagnose(bridged)) == ["no-way"]


@pytest.fixture
def native(containerd_1_6: Release, installed: Path) -> Iterator[Containerd]:
    conf = {"version": "0.1", "plugins": [CLEARCFS]}
    with Containerd(
        release=containerd_1_6, conf=conf, prepare=lambda enclosure: enclosure.install(installed)
    ) as containerd:
        (containerd.enclosure.opt_nri / "plugins/10-v1bridge").unlink()
        yield containerd


def test_containerd_1_6_that_runs_plugins_itself_is_well(native: Containerd) -> None:
    found = diagnose(native)
    assert faults(found) == []
    assert f"containerd {version(native.release)}: containerd itself, /etc/nri/conf.json" in texts(
        found, "way"
    )
