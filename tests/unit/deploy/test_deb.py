"""The Debian package: what it contains, and what real dpkg makes of it in a scratch root."""

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.installing import BRIDGE, DEPLOY, ROOT, build, run, sleeper, source, tree

if shutil.which("dpkg-deb") is None or shutil.which("objdump") is None:
    pytest.skip("dpkg-deb or objdump is not installed", allow_module_level=True)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs as root only")
CONFFILES = [
    "/etc/nri/resource.d/10-konfine.conf",
    "/etc/nri/resource.d/20-clearcfs.conf",
    "/etc/nri/v1bridge.json",
]
LIBC = "Package: libc6\nStatus: install ok installed\nArchitecture: {}\nVersion: {}\nMaintainer: m\nDescription: d\n"


class Packages:
    """A checkout that each package is built from once, and a root that they are installed in."""

    def __init__(self, checkout: Path, root: Path) -> None:
        self.checkout, self.root = checkout, root
        self.nri = root / "opt/nri"
        self.architecture = run("dpkg", "--print-architecture").stdout.strip()
        self.libc("9.99")

    def libc(self, version: str) -> None:
        """Make dpkg's database for the root, with this libc6 in it."""
        database = self.root / "var/lib/dpkg"
        for folder in ("info", "updates", "triggers"):
            (database / folder).mkdir(parents=True, exist_ok=True)
        (database / "status").write_text(LIBC.format(self.architecture, version))
        (database / "available").touch()

    def build(self, version: str = "1.2.3") -> Path:
        """Return the package of this version, built if there is none."""
        package = self.checkout / f"dist/nri_{version.replace('rc', '~rc')}_{self.architecture}.deb"
        if not package.exists():
            build(self.checkout, version)
            (self.checkout / "dist/nri/_internal/content").write_text(version)
            sleeper(self.checkout / "dist/nri/v1bridge")
            said = run(self.checkout / "tools/deb").stdout
            assert said.startswith(f"built dist/{package.name}, ")
            assert "\nneeds glibc 2." in said
        return package

    def dpkg(self, *words: str | Path, check: bool = True) -> str:
        """Run dpkg; return what it and the package's scripts say."""
        options = [f"--root={self.root}", "--force-script-chrootless", "--log=/dev/null"]
        done = subprocess.run(
            ["dpkg", *options, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout
        return done.stdout.replace(str(self.root), "")

    def install(self, version: str = "1.2.3") -> str:
        return self.dpkg("--install", self.build(version))

    @property
    def folder(self) -> Path:
        return (self.nri / "lib").resolve()

    def left(self) -> dict[str, str]:
        """Files in the root beside dpkg's own."""
        return {
            name: text
            for name, text in tree(self.root).items()
            if not name.startswith("var/lib/dpkg/")
        }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with executables."""
    checkout = source(tmp_path_factory.mktemp("checkout"))
    shutil.copytree(DEPLOY, checkout / "deploy")
    shutil.copy(ROOT / "CHANGELOG.md", checkout)
    (checkout / "dist/nri/_internal").mkdir()
    library = checkout / "dist/nri/_internal/library.so"
    library.write_text("not an executable, whatever its mode is")
    library.chmod(0o775)
    completions = checkout / "dist/nri/completions"
    completions.mkdir()
    for shell in ("bash", "zsh", "fish"):
        (completions / f"nri.{shell}").write_text(f"# {shell}\n")
    return checkout


@pytest.fixture
def packages(checkout: Path, tmp_path: Path) -> Packages:
    return Packages(checkout, tmp_path / "root")


# What it contains


def opened(package: Path) -> tarfile.TarFile:
    data = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True
    ).stdout
    return tarfile.open(fileobj=BytesIO(data))


def test_package_has_right_places_modes_and_checksums(packages: Packages) -> None:
    package = packages.build()
    contents = opened(package)
    executables = {"clearcfs", "konfine", "nri", "v1bridge", "install-lib", "rollback"}
    completions = {
        "./usr/share/bash-completion/completions/nri",
        "./usr/share/zsh/vendor-completions/_nri",
        "./usr/share/fish/vendor_completions.d/nri.fish",
    }
    files, directories, checksums = set(), set(), {}
    for member in contents:
        assert (member.uid, member.gid) == (0, 0)
        if member.isdir():
            directories.add(member.name)
        else:
            files.add(member.name)
        if member.issym():
            assert (member.name, member.linkname) == ("./usr/bin/nri", "../../opt/nri/lib/nri")
            continue
        is_executable = member.isdir() or os.path.basename(member.name) in executables
        is_executable = is_executable and member.name not in completions
        assert member.mode == (0o755 if is_executable else 0o644), member.name
        file = None if member.name.startswith("./etc") else contents.extractfile(member)
        if file is not None:
            checksums[member.name.removeprefix("./")] = hashlib.md5(file.read()).hexdigest()

    others = {
        name
        for name in files
        if not name.startswith(("./etc/nri/", "./usr/lib/nri/", "./usr/share/doc/nri/"))
    }
    units = {f"./usr/lib/systemd/system/{name}.service" for name in ("nri-v1bridge", "nri-metrics")}
    assert others == {"./usr/bin/nri", *units, *completions}
    own = {name for name in directories if name.startswith("./opt")}
    assert own == {"./opt", "./opt/nri", "./opt/nri/bin", "./opt/nri/plugins"}  # dpkg removes them
    listed = [
        line.split("  ", 1)
        for line in run("dpkg-deb", "--info", package, "md5sums").stdout.splitlines()
    ]
    assert {name: checksum for checksum, name in listed} == checksums


def test_control_files_name_the_libc_and_scripts_are_valid(
    packages: Packages, tmp_path: Path
) -> None:
    package = packages.build()
    needs = run(
        packages.checkout / "tools/needed-libc", packages.checkout / "dist/nri"
    ).stdout.strip()
    fields = run(
        "dpkg-deb", "--field", package, "Depends", "Architecture", "Version"
    ).stdout.splitlines()
    expected = [
        f"Depends: libc6 (>= {needs})",
        f"Architecture: {packages.architecture}",
        "Version: 1.2.3",
    ]
    assert sorted(fields) == sorted(expected)
    assert "@" not in run("dpkg-deb", "--field", package).stdout.replace("nri@localhost", "")
    assert run("dpkg-deb", "--info", package, "conffiles").stdout.split() == CONFFILES
    run("dpkg-deb", "--control", package, tmp_path / "control")
    scripts = {"postinst", "prerm", "postrm"}
    assert {path.name for path in (tmp_path / "control").iterdir()} == {
        "control",
        "conffiles",
        "md5sums",
    } | scripts
    for script in scripts:
        path = tmp_path / "control" / script
        run("sh", "-n", path)
        if shutil.which("shellcheck"):
            run("shellcheck", "--shell=sh", "--exclude=SC1091", path)


def test_packages_are_reproducible_and_pre_releases_older(
    packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    package = packages.build("1.2.3rc1")
    first = package.rename(package.with_suffix(".first"))
    assert packages.build("1.2.3rc1").read_bytes() == first.read_bytes()
    run("dpkg", "--compare-versions", "1.2.3~rc1", "lt", "1.2.3")


def test_binaries_that_print_no_version_are_an_error(packages: Packages) -> None:
    (packages.checkout / "dist/nri/nri").write_text("#!/bin/sh\n")
    done = run(packages.checkout / "tools/deb", check=False)
    wrong = "prints no version that begins with a digit (found unknown); run make binaries-portable"
    assert (done.returncode, done.stderr) == (1, f"tools/deb: dist/nri/nri --version {wrong}\n")
    assert not list((packages.checkout / "build").glob("deb.*"))


# What dpkg makes of it


@needs_root
def test_fresh_node_has_no_bridge_until_one_is_chosen(packages: Packages) -> None:
    said = packages.install()
    assert packages.folder.name.startswith("lib.1.2.3-")
    for link in ("opt/nri/bin/clearcfs", "opt/nri/bin/konfine"):
        assert (packages.root / link).resolve().parent == packages.folder
    assert os.readlink(packages.root / "usr/bin/nri") == "../../opt/nri/lib/nri"
    assert (packages.root / "usr/bin/nri").exists()
    assert list((packages.root / BRIDGE).parent.iterdir()) == []
    assert not (packages.root / "etc/systemd").exists()
    for choice in ("systemctl enable --now nri-v1bridge", f"ln -s ../lib/v1bridge /{BRIDGE}"):
        assert f"  {choice}" in said
    assert packages.dpkg("--verify", "nri") == ""
    os.symlink("../lib/v1bridge", packages.root / BRIDGE)
    assert (packages.root / BRIDGE).exists()


@needs_root
def test_upgrade_keeps_previous_version_and_configuration(packages: Packages) -> None:
    packages.install("1.2.3")
    first = packages.folder
    conf = packages.root / CONFFILES[0][1:]
    conf.write_text("mine")
    said = packages.install("1.2.4")
    assert "systemctl" not in said
    assert packages.folder.name.startswith("lib.1.2.4-")
    assert (packages.nri / "lib.previous").resolve() == first
    assert (first / "_internal/content").read_text() == "1.2.3"
    assert os.readlink(packages.nri / "bin/clearcfs") == "../lib/clearcfs"

    run(packages.root / "usr/lib/nri/rollback", packages.root)
    assert packages.folder == first
    packages.dpkg("--remove", "nri")
    packages.install("1.2.5")
    assert packages.folder.name.startswith("lib.1.2.5-")
    assert conf.read_text() == "mine"
    packages.dpkg("--purge", "nri")
    assert packages.left() == {}


@needs_root
def test_running_bridge_keeps_its_folder_and_is_named(
    packages: Packages,
    start: Callable[..., subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packages.install("1.2.3")
    bridge = start(packages.folder / "v1bridge", "1000")
    first = packages.folder
    said = packages.install("1.2.4")
    running = (
        f"/opt/nri/{first.name}/v1bridge (process {bridge.pid}), which the runtime has launched"
    )
    assert f"running   {running}: restart the runtime\n" in said
    assert f"running   {running}" in packages.dpkg("--remove", "nri", check=False)
    assert (packages.folder / "clearcfs").exists()
    monkeypatch.setenv("NRI_FORCE", "1")
    said = packages.dpkg("--remove", "nri")
    assert (
        f"kept      /opt/nri/{first.name}, which a process runs from; when it has ended, purge the package"
        in said
    )
    assert f"running   {running}: restart the runtime\n" in said
    assert {path.name for path in packages.nri.iterdir()} == {first.name}
    bridge.kill()
    bridge.wait()
    packages.dpkg("--purge", "nri")
    assert packages.left() == {}


@needs_root
def test_removal_leaves_the_conffiles_and_purge_nothing(packages: Packages) -> None:
    packages.install("1.2.4")
    os.symlink("../lib/v1bridge", packages.root / BRIDGE)  # as README.Debian says
    wants = packages.root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "nri-v1bridge.service").symlink_to("/usr/lib/systemd/system/nri-v1bridge.service")
    packages.dpkg("--remove", "nri")
    left = packages.left()
    assert sorted(f"/{name}" for name in left) == sorted(
        [*CONFFILES, f"/{wants.relative_to(packages.root)}"]
    )
    shutil.rmtree(packages.root / "etc/systemd")
    packages.dpkg("--purge", "nri")
    assert packages.left() == {}
    assert {path.name for path in packages.root.iterdir()} <= {"var", "etc"}
    packages.install("1.2.4")
    assert (packages.root / "usr/bin/nri").exists()


@needs_root
def test_plugins_and_files_of_others_are_never_touched(packages: Packages) -> None:
    others = {
        "opt/nri/bin/mine": "a plugin",
        "opt/nri/bin/clearcfs": "another's clearcfs",
        "opt/nri/plugins/20-logger": "a v2 plugin",
        "etc/nri/resource.d/30-mine.conf": "{}",
        "usr/local/bin/nri": "another's",
    }
    for place, text in others.items():
        (packages.root / place).parent.mkdir(parents=True, exist_ok=True)
        (packages.root / place).write_text(text)
    assert "kept      /opt/nri/bin/clearcfs (not installed by this" in packages.install()
    assert (packages.nri / "bin/konfine").exists()
    packages.dpkg("--purge", "nri")
    assert packages.left() == others


@needs_root
def test_package_takes_over_a_tree_of_make_install(packages: Packages) -> None:
    build(packages.checkout, "1.2.2")
    page = packages.checkout / "dist/nri/man/nri.1"
    page.parent.mkdir()
    page.write_text("")
    run(packages.checkout / "tools/install", packages.root)
    before = packages.folder
    said = packages.install("1.2.3")
    assert "no bridge is enabled" not in said  # the runtime launches it, as before
    assert (packages.nri / "lib.previous").resolve() == before
    assert (packages.root / BRIDGE).resolve().parent == packages.folder
    assert (packages.root / "usr/local/bin/nri").exists()
    done = run(packages.checkout / "tools/uninstall", packages.root, check=False)
    assert (done.returncode, "apt-get remove nri" in done.stderr) == (1, True)
    packages.dpkg("--purge", "nri")
    assert packages.left() == {"usr/local/bin": "(empty)", "usr/local/share/man/man1": "(empty)"}


@needs_root
def test_older_libc_and_a_directory_as_link_are_refused(packages: Packages) -> None:
    packages.libc("2.1")
    package = packages.build()
    said = packages.dpkg("--install", package, check=False)
    assert "nri depends on libc6 (>= " in said
    assert not (packages.nri / "lib").exists()

    packages.libc("9.99")
    (packages.nri / "lib").mkdir(parents=True)
    said = packages.dpkg("--install", package, check=False)
    assert (
        "install-lib: found a directory at /opt/nri/lib, expected a link or nothing; move it away"
        in said
    )
    (packages.nri / "lib").rmdir()
    packages.dpkg("--configure", "nri")
    assert (packages.root / "usr/bin/nri").exists()
