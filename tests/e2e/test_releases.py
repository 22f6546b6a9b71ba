"""Fetching containerd: what is used, what is tried again, and what is said when there is none. No network here."""

import platform
import threading
from pathlib import Path

import pytest

from harness import debian
from harness.containerd import releases


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing is cached, on a machine that has no containerd of its own."""
    monkeypatch.setattr(releases, "OWN", tmp_path / "own")
    return tmp_path / "cache"


def unpack(folder: Path, version: str) -> None:
    folder.mkdir(parents=True)
    program = folder / "containerd"
    program.write_text(f"#!/bin/sh\necho containerd example.org/containerd {version} abc\n")
    program.chmod(0o755)


class Mirror:
    """Stands for the download: fails so many times, then unpacks a containerd of this version."""

    def __init__(self, version: str, *, failures: int = 0) -> None:
        self.version, self.failures = version, failures
        self.asked: list[str] = []

    def __call__(self, suite: str, cache: Path) -> None:
        self.asked.append(suite)
        if len(self.asked) <= self.failures:
            raise debian.UnavailableError("no route to the mirror")
        unpack(cache / suite / "usr/bin", self.version)


def test_a_release_is_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_download", mirror := Mirror("v2.3.4"))
    first, second = (releases.find((2,), cache=cache) for _ in range(2))
    assert first == second
    assert (first.version, first.programs) == ((2, 3, 4), cache / "sid/usr/bin")
    assert mirror.asked == ["sid"]


def test_the_machines_own_is_taken_by_its_version(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(releases.OWN, "1.7.24~ds1")
    monkeypatch.setattr(releases, "_download", mirror := Mirror("1.6.20~ds1"))
    assert releases.find((1, 7), cache=cache).programs == releases.OWN
    assert releases.find((1, 6), cache=cache).version == (1, 6, 20)
    assert mirror.asked == ["bookworm"]


def test_a_failed_download_is_tried_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_download", mirror := Mirror("1.7.1", failures=2))
    assert releases.find((1, 7), cache=cache, pauses=(0, 0)).version == (1, 7, 1)
    assert mirror.asked == ["trixie"] * 3


def test_a_download_that_keeps_failing_is_given_up_with_its_reason(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "_download", mirror := Mirror("1.7.1", failures=9))
    with pytest.raises(debian.UnavailableError, match="no route to the mirror"):
        releases.find((1, 7), cache=cache, pauses=(0,))
    assert mirror.asked == ["trixie"] * 2


def test_a_suite_that_has_moved_on_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "_download", Mirror("3.0.0"))
    with pytest.raises(debian.UnavailableError, match=r"needs containerd 2, found 3\.0\.0 in .*/sid/usr/bin"):
        releases.find((2,), cache=cache)


def test_a_machine_without_a_debian_mirror_is_told_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "run", lambda *_: "")
    with pytest.raises(debian.UnavailableError, match="no Debian mirror in this machine's apt sources"):
        releases.find((2,), cache=cache)
    assert sorted(path.name for path in cache.iterdir()) == ["sid.lock"]


@pytest.mark.parametrize(
    ("targets", "mirrors"),
    [
        (
            "http://a.example/debian/ CODENAME main\nhttp://a.example/debian/ CODENAME contrib",
            "http://a.example/debian/",
        ),
        ("https://b.example/snapshot/2026/ stable main", "https://b.example/snapshot/2026/"),
        # others call a suite as Debian does, but not their archive
        ("http://other.example/ CODENAME main\nhttp://a.example/debian/ CODENAME main", "http://a.example/debian/"),
        ("http://a.example/debian-security/ CODENAME-security main\ncdrom://Debian/ CODENAME main", None),
    ],
)
def test_the_mirror_is_the_machines_own(monkeypatch: pytest.MonkeyPatch, targets: str, mirrors: str | None) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "newest"})
    monkeypatch.setattr(debian, "run", lambda *_: targets.replace("CODENAME", "newest"))
    if mirrors is None:
        with pytest.raises(debian.UnavailableError):
            debian.mirrors()
    else:
        assert debian.mirrors() == [mirrors]


def test_one_fetches_while_the_others_wait(tmp_path: Path) -> None:
    entered: list[str] = []

    def wait() -> None:
        with releases._lock(tmp_path / "lock"):
            entered.append("other")

    with releases._lock(tmp_path / "lock"):  # flock is per open file, so it is between threads as between processes
        other = threading.Thread(target=wait)
        other.start()
        other.join(0.1)
        entered.append("first")
    other.join(10)
    assert entered == ["first", "other"]
