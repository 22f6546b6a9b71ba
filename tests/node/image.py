"""The disk of the machine: Debian 13 from this machine's mirror, its kernel and initrd, and an emulator for it.

It is made once for what it is made of, which is this file, and then taken from the cache; delete the folder to get
newer packages. Debian's emulator comes from the same suite, because older ones crash a kernel that works for
minutes; it runs from its folder with its own libraries, and nothing is installed here.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from pathlib import Path

from harness import debian

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "dbus-user-session", "udev", "kmod", "iproute2", "procps"),
    *(
        "linux-image-cloud-amd64",
        "containerd",
        "runc",
        "crun",
        "podman",
        "catatonit",
        "busybox-static",
    ),
    *("uidmap", "passt", "libpam-systemd", "python3"),
)
BASE_SUITE = "bookworm"  # the base of the container image in deploy/kubernetes
BASE_PACKAGES = ("dash",)
EMULATOR = "qemu-system-x86"
SIZE = "4G"
PAUSES = (5, 20, 60)  # seconds before each further attempt: a mirror may be away for a moment
DEBOOTSTRAP_TIMEOUT = 1200.0  # seconds

FILES = {
    "etc/hostname": "node\n",
    "etc/fstab": "",
    # The second disk has what is to be done. Its start script writes to the second serial port.
    "etc/systemd/system/node-tests.service": """\
[Unit]
Description=the scenarios of the second disk
After=multi-user.target containerd.service

[Service]
Type=oneshot
ExecStartPre=/bin/mkdir -p /payload
ExecStartPre=/bin/mount /dev/vdb /payload
ExecStart=/bin/sh /payload/project/tests/node/guest/start
ExecStopPost=/bin/sh -c '[ -e /run/node-reboots ] || systemctl --no-block poweroff'
StandardOutput=file:/dev/ttyS1
StandardError=inherit
TimeoutStartSec=infinity
Delegate=yes
""",
    "etc/systemd/system/node-tests.target": "[Unit]\nRequires=multi-user.target\nWants=node-tests.service\n",
    # A full journal of a machine that lives for minutes, in memory.
    "etc/systemd/journald.conf.d/node.conf": "[Journal]\nStorage=volatile\nRateLimitBurst=0\n",
}
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
)


class Image:
    """The files of a machine that is ready to boot, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk, self.kernel, self.initrd = (
            folder / "root.img",
            folder / "vmlinuz",
            folder / "initrd.img",
        )
        self.base = folder / "base.tar"  # of a container image
        self.modules = (
            folder / "emulator/usr/lib/x86_64-linux-gnu/qemu"
        )  # not those of this machine's own emulator

    def emulator(self) -> list[str | Path]:
        """Return the command that runs the emulator, without its arguments."""
        tree = self.folder / "emulator"
        libraries = tree / "usr/lib/x86_64-linux-gnu"
        data = [tree / "usr/share/qemu", tree / "usr/share/seabios"]
        loader: list[str | Path] = [tree / "usr/lib64/ld-linux-x86-64.so.2", "--library-path"]
        program: list[str | Path] = [
            f"{libraries}:{libraries}/pulseaudio",
            tree / "usr/bin/qemu-system-x86_64",
        ]
        return [*loader, *program, *[word for path in data for word in ("-L", path)]]


def cached(cache: Path) -> Image:
    """Return the image in *cache*, which is made if it is not there. That takes some two minutes, and root.

    :raises harness.debian.UnavailableError: it cannot be made.
    """
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    image = Image(cache / f"image-{recipe}")
    if not image.folder.exists():
        for old in cache.glob("image-*"):
            shutil.rmtree(old)
        work = cache / f"making-{recipe}"
        for pause in (*PAUSES, None):
            shutil.rmtree(work, ignore_errors=True)
            try:
                _make(Image(work))
                work.rename(image.folder)
                break
            except debian.UnavailableError as error:
                if pause is None:
                    raise
                print(
                    f"the machine's disk could not be made, next attempt in {pause} s: {error}",
                    flush=True,
                )
                time.sleep(pause)
    return image


def _make(image: Image) -> None:
    tree = image.folder / "tree"
    image.folder.mkdir(parents=True)
    _debootstrap(SUITE, tree, PACKAGES)
    _take_emulator(tree, image.folder / "emulator")
    _make_base(image)
    for name, text in FILES.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for unit in MASKED:
        (tree / "etc/systemd/system" / unit).symlink_to("/dev/null")
    (tree / "etc/systemd/system/default.target").unlink(missing_ok=True)
    (tree / "etc/systemd/system/default.target").symlink_to("node-tests.target")
    for name, target in (("vmlinuz", image.kernel), ("initrd.img", image.initrd)):
        (found,) = (tree / "boot").glob(f"{name}-*")
        shutil.copy(found, target)
    for waste in (
        "var/cache/apt",
        "var/lib/apt/lists",
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
    ):
        shutil.rmtree(tree / waste)
        (tree / waste).mkdir()
    _checked(
        "mke2fs", "mke2fs", "-q", "-t", "ext4", "-d", tree, "-O", "^has_journal", image.disk, SIZE
    )
    shutil.rmtree(tree)


def _debootstrap(suite: str, tree: Path, packages: tuple[str, ...]) -> None:
    options = ["--variant=minbase", f"--keyring={KEYRING}", f"--include={','.join(packages)}"]
    _checked(
        suite,
        "debootstrap",
        *options,
        suite,
        tree,
        debian.mirrors()[0],
        timeout=DEBOOTSTRAP_TIMEOUT,
    )


def _make_base(image: Image) -> None:
    """Make the root file system of a container of another suite than the machine's."""
    tree = image.folder / "base"
    _debootstrap(BASE_SUITE, tree, BASE_PACKAGES)
    without = [
        f"--exclude=./{place}"
        for place in ("var/cache", "var/lib/apt", "usr/share/doc", "usr/share/locale", "dev")
    ]
    _checked("the base", "tar", "-C", tree, *without, "-cf", image.base, ".")
    shutil.rmtree(tree)


def _take_emulator(tree: Path, target: Path) -> None:
    """Unpack the emulator and its libraries. The machine's own tree says which libraries it has."""
    apt: list[str | Path] = ["chroot", tree, "apt-get", "-qq"]
    _checked("the package list", *apt, "update")
    _checked("the packages", *apt, "clean")
    _checked(
        "the emulator",
        *apt,
        "--yes",
        "--no-install-recommends",
        "--download-only",
        "install",
        EMULATOR,
    )
    for package in sorted((tree / "var/cache/apt/archives").glob("*.deb")):
        _checked(package.name, "dpkg", "--extract", package, target)
    # What the machine has as well was not downloaded.
    libraries = target / "usr/lib/x86_64-linux-gnu"
    for source in (tree / "usr/lib/x86_64-linux-gnu").glob("*.so*"):
        if not (libraries / source.name).exists() and source.exists():
            shutil.copy2(source, libraries / source.name)
    (target / "usr/lib64").mkdir(exist_ok=True)
    shutil.copy2(tree / "usr/lib64/ld-linux-x86-64.so.2", target / "usr/lib64")


def _checked(what: str, *command: str | Path, timeout: float = debian.TIMEOUT) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise debian.UnavailableError(f"needs Debian's {command[0]}: {error}") from error
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-5:])
        raise debian.UnavailableError(f"{what}: {command[0]} exited with {done.returncode}:\n{end}")
