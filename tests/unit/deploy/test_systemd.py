"""The systemd unit: it agrees with what ``make install`` lays out, and plugins can do their work in it."""

import configparser
import shutil
from pathlib import Path

import pytest

from nri.v1bridge import BridgeOptions
from nri.v1bridge.serving import LAST_CALLS
from tests.support.installing import BRIDGE, DEPLOY, run, source
from tests.support.systemd_units import read_unit


@pytest.fixture
def unit() -> configparser.ConfigParser:
    return read_unit(DEPLOY / "systemd/nri-v1bridge.service")


def test_the_unit_runs_what_is_installed_with_settings_that_are_right(
    unit: configparser.ConfigParser, installed: Path
) -> None:
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert arguments == ["bridge", "--config", "/etc/nri/v1bridge.json"]
    assert (installed / program.lstrip("/")).resolve().name == "nri"
    BridgeOptions.parse((DEPLOY / "systemd/v1bridge.json").read_text())


def test_the_unit_does_not_start_beside_a_bridge_that_the_runtime_launches(
    unit: configparser.ConfigParser, installed: Path
) -> None:
    assert unit["Unit"]["AssertPathExists"] == f"!/{BRIDGE}"
    assert (installed / BRIDGE).is_symlink()


def test_the_unit_leaves_plugins_the_cgroups_and_what_else_they_need(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["ProtectControlGroups"] == service["ProtectKernelTunables"] == "no"
    assert (service["ProtectProc"], service["ProcSubset"]) == ("default", "all")
    assert service["CapabilityBoundingSet"] == ""  # see test_the_plugins_need_no_capability
    assert (service["NoNewPrivileges"], service["RestrictNamespaces"], service["LimitCORE"]) == ("yes", "yes", "0")
    assert "AF_UNIX" in service["RestrictAddressFamilies"].split()
    assert not {"User", "DynamicUser", "ReadOnlyPaths", "InaccessiblePaths", "RootDirectory"} & set(service)


def test_the_unit_lets_the_chains_that_are_running_end(unit: configparser.ConfigParser) -> None:
    assert unit["Service"]["KillMode"] == "mixed"
    assert int(unit["Service"]["TimeoutStopSec"]) > LAST_CALLS


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    text = (DEPLOY / "systemd/nri-v1bridge.service").read_text()
    copy = tmp_path / "nri-v1bridge.service"
    copy.write_text(text.replace("/opt/nri/lib/nri ", "/bin/true "))  # it must exist, here
    done = run("systemd-analyze", "verify", "--man=no", copy, check=False)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    assert (done.returncode, [line for line in done.stderr.splitlines() if "nri-v1bridge" in line]) == (0, [])


def test_systemd_finds_the_unit_no_more_exposed_than_its_plugins_need(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    copy = tmp_path / "nri-v1bridge.service"
    shutil.copy(DEPLOY / "systemd/nri-v1bridge.service", copy)
    # Tenths of its scale, in which 100 is no protection. Most of what is left is root, the network and the cgroups.
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=50", copy, check=False)
    if "unrecognized option" in done.stderr or "Failed to" in done.stderr:
        pytest.skip(f"systemd-analyze security --offline does not work here (systemd 250): {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout[-200:]
    assert "Overall exposure level" in done.stdout


@pytest.mark.parametrize("folder", ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"])
def test_make_install_registers_no_bridge_where_the_unit_is_installed(tmp_path: Path, folder: str) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    (node / folder).mkdir(parents=True)
    shutil.copy(DEPLOY / "systemd/nri-v1bridge.service", node / folder)

    said = run(checkout / "tools/install", node).stdout

    assert not (node / BRIDGE).is_symlink()
    unit = f"{node}/{folder}/nri-v1bridge.service"
    assert f"no /{BRIDGE}, as nri-v1bridge.service is the bridge here: {unit}" in said


def test_a_masked_unit_is_none(tmp_path: Path) -> None:
    checkout, node = source(tmp_path), tmp_path / "node"
    for folder in ("etc/systemd/system", "usr/lib/systemd/system"):
        (node / folder).mkdir(parents=True)
    shutil.copy(DEPLOY / "systemd/nri-v1bridge.service", node / "usr/lib/systemd/system")
    (node / "etc/systemd/system/nri-v1bridge.service").symlink_to("/dev/null")

    run(checkout / "tools/install", node)

    assert (node / BRIDGE).is_symlink()
