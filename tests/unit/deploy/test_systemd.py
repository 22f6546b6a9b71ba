"""The systemd units: they agree with what ``make install`` lays out, and plugins can do their work in them."""

import configparser
import shutil
from pathlib import Path

import pytest

from nri.v1bridge import BridgeOptions
from nri.v1bridge.serving import LAST_CALLS
from tests.support.installing import BRIDGE, DEPLOY, run, source

UNIT = DEPLOY / "systemd/nri-v1bridge.service"
METRICS = DEPLOY / "monitoring/nri-metrics.service"


def read_unit(path: Path, *, strict: bool = True) -> configparser.ConfigParser:
    """Return the sections of a unit; without *strict* a key may be there again, and the last one counts."""
    parser = configparser.ConfigParser(
        interpolation=None, delimiters="=", comment_prefixes="#", strict=strict
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(), str(path))
    return parser


@pytest.fixture
def unit() -> configparser.ConfigParser:
    return read_unit(UNIT)


def test_unit_runs_what_is_installed(unit: configparser.ConfigParser, installed: Path) -> None:
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert arguments == ["bridge", "--config", "/etc/nri/v1bridge.json"]
    assert (installed / program.lstrip("/")).resolve().name == "nri"
    assert BridgeOptions.of_text((DEPLOY / "systemd/v1bridge.json").read_text())[1] == []
    assert unit["Unit"]["AssertPathExists"] == f"!/{BRIDGE}"
    assert (installed / BRIDGE).is_symlink()


def test_unit_allows_cgroups_and_lets_running_chains_end(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["ProtectControlGroups"] == service["ProtectKernelTunables"] == "no"
    assert (service["ProtectProc"], service["ProcSubset"]) == ("default", "all")
    assert service["CapabilityBoundingSet"] == ""  # the plugins need no capability
    assert (service["NoNewPrivileges"], service["RestrictNamespaces"], service["LimitCORE"]) == (
        "yes",
        "yes",
        "0",
    )
    assert "AF_UNIX" in service["RestrictAddressFamilies"].split()
    assert not {"User", "DynamicUser", "ReadOnlyPaths", "InaccessiblePaths", "RootDirectory"} & set(
        service
    )
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > LAST_CALLS


def test_metrics_are_served_on_loopback_without_capabilities(installed: Path) -> None:
    service = read_unit(METRICS, strict=False)["Service"]
    program, *arguments = service["ExecStart"].split()
    assert (installed / program.lstrip("/")).resolve().name == "nri"
    assert arguments[:2] == ["metrics", "--listen"]
    assert arguments[2].startswith("127.0.0.1:")
    assert not {"User", "DynamicUser", "PrivateUsers"} & set(service)  # the socket is root's
    expected = {
        "CapabilityBoundingSet": "",
        "NoNewPrivileges": "yes",
        "TemporaryFileSystem": "/run",
        "BindReadOnlyPaths": "/run/nri",
        "ProtectSystem": "strict",
        "IPAddressDeny": "any",
        "IPAddressAllow": "localhost",
    }
    assert {name: service[name] for name in expected} == expected


# Tenths of systemd's scale, in which 100 is no protection. Most of what is left to the bridge is root, the network
# and the cgroups.
@pytest.mark.parametrize(
    ("path", "exposure"), [(UNIT, 50), (METRICS, 20)], ids=["bridge", "metrics"]
)
def test_systemd_accepts_the_units(tmp_path: Path, path: Path, exposure: int) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    copy = tmp_path / path.name
    # It must exist, here.
    copy.write_text(path.read_text().replace("/opt/nri/lib/nri ", "/bin/true "))
    done = run("systemd-analyze", "verify", "--man=no", copy, check=False)
    if "Failed to" in done.stderr and "manager" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.stem in line]) == (
        0,
        [],
    )
    done = run(
        "systemd-analyze",
        "security",
        "--offline=true",
        f"--threshold={exposure}",
        copy,
        check=False,
    )
    if "unrecognized option" in done.stderr or "Failed to" in done.stderr:
        pytest.skip(
            f"systemd-analyze security --offline does not work here (systemd 250): {done.stderr.strip()}"
        )
    assert done.returncode == 0, done.stdout[-200:]


def test_make_install_registers_no_bridge_beside_a_unit(tmp_path: Path) -> None:
    checkout = source(tmp_path)
    unit = "nri-v1bridge.service"
    for folder in ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"):
        node = tmp_path / folder.replace("/", "-")
        (node / folder).mkdir(parents=True)
        shutil.copy(UNIT, node / folder)
        said = run(checkout / "tools/install", node).stdout
        assert not (node / BRIDGE).is_symlink()
        assert f"no /{BRIDGE}, as {unit} is the bridge here: {node}/{folder}/{unit}" in said

    node = tmp_path / "masked"
    (node / "etc/systemd/system").mkdir(parents=True)
    (node / "etc/systemd/system" / unit).symlink_to("/dev/null")
    run(checkout / "tools/install", node)
    assert (node / BRIDGE).is_symlink()
