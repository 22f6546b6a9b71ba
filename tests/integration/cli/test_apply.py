"""nri apply: all the files of a directory count at once, or none of them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri import config
from nri.config import loading, refused
from tests.integration.cli.running import Ran, command, inside
from tests.support.config_maps import ConfigMapVolume
from tests.support.host import Host

ONE = '{"version": "0.1", "plugins": [{"type": "a"}]}'
TWO = '{"version": "0.1", "plugins": [{"type": "b"}]}'


@pytest.fixture
def new(host: Host) -> Path:
    """A directory to apply, on a host with the plugins a and b and no configuration."""
    for name in ("a", "b"):
        host.script(name, '#!/bin/sh\n[ "$1" = invoke ] || exit 3\ncat >/dev/null\necho "{}"\n')
    host.conf.rmdir()
    new = host.folder("new")
    (new / "10.conf").write_text(ONE)
    (new / "10.conf").chmod(0o666)  # whose mode does not count
    (new / "notes.txt").write_text("not a configuration")
    return new


def apply(host: Host, new: Path) -> Ran:
    return command(host, "apply", str(new))


def plugins(host: Host) -> list[str]:
    """What a bridge would run; owners and modes are right."""
    return [plugin.type for plugin in config.load(str(host.conf), f"{host.root}/none").plugins]


def sets(host: Host) -> list[str]:
    return sorted(each.name for each in (host.root / "sets").iterdir())


def test_the_files_are_copied_and_one_link_leads_to_them(host: Host, new: Path) -> None:
    done = apply(host, new)
    (name,) = sets(host)
    content = command(host, "check", "--hash").stdout.strip()
    assert (done.status, done.stdout) == (0, f"now in use: 10.conf, hash {content}\n")
    assert os.readlink(host.conf) == f"sets/{name}"
    assert name == f"1-{content}"
    assert [each.name for each in host.conf.iterdir()] == ["10.conf"]
    assert (host.conf / "10.conf").stat().st_mode & 0o777 == 0o644
    assert plugins(host) == ["a"]


def test_the_copy_before_stays_and_older_ones_go(host: Host, new: Path) -> None:
    apply(host, new)
    first = os.readlink(host.conf)
    (new / "10.conf").write_text(TWO)
    (new / "20.conf").write_text(ONE)
    assert apply(host, new).stdout.startswith("now in use: 10.conf 20.conf, hash ")
    assert plugins(host) == ["b", "a"]
    second = os.readlink(host.conf)
    assert apply(host, host.root / first).status == 0
    assert plugins(host) == ["a"]
    third = os.readlink(host.conf)
    assert sets(host) == sorted(os.path.basename(each) for each in (second, third))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"10.conf": "{"}, "new/10.conf:1:2: (document): expecting"),
        (
            {"10.conf": ONE.replace("type", "tpye")},
            "new/10.conf:1:33: plugins[0].tpye: unknown key",
        ),
        (
            {"10.conf": ONE, "20.conf": ONE.replace('"a"', '"gone"')},
            "new/20.conf:1:41: plugins[0].type: gone: ",
        ),
        ({}, ' has no *.conf; for no plugins, write one with "plugins": []'),
    ],
)
def test_nothing_changes_if_there_is_a_fault(
    host: Host, new: Path, files: dict[str, str], why: str
) -> None:
    apply(host, new)
    before = os.readlink(host.conf)
    (new / "10.conf").unlink()
    for name, text in files.items():
        (new / name).write_text(text)
    done = apply(host, new)
    assert (done.status, done.stdout) == (1, "")
    assert why in done.stderr
    assert "sets" not in done.stderr
    assert (os.readlink(host.conf), plugins(host), len(sets(host))) == (before, ["a"], 1)


def test_the_directory_that_was_there_is_kept_once(host: Host, new: Path) -> None:
    host.configure_text(TWO, name="05.conf")
    done = apply(host, new)
    assert done.stdout.startswith(
        f"moved {host.conf} to {host.root}/before/resource.d\nnow in use: 10.conf"
    )
    assert (host.root / "before/resource.d/05.conf").read_text() == TWO
    host.conf.unlink()
    host.configure_text(TWO, name="06.conf")
    done = apply(host, new)
    assert (done.status, plugins(host)) == (1, ["b"])
    assert done.stderr.endswith(
        f"and an earlier one, {host.root}/before/resource.d; remove one of them\n"
    )


def test_a_link_that_was_there_leads_to_the_same_directory_afterwards(
    host: Host, new: Path
) -> None:
    host.configure_text(TWO, name="05.conf")
    host.conf.rename(host.root / "mine")
    host.conf.symlink_to("mine")
    assert apply(host, new).status == 0
    assert plugins(host) == ["a"]
    assert (host.root / "before/resource.d/05.conf").read_text() == TWO
    assert apply(host, host.root / "before/resource.d").status == 0
    assert plugins(host) == ["b"]


@pytest.mark.parametrize("last", [1, 2])
def test_config_map_exchanged_during_the_copy(
    host: Host, new: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    volume = ConfigMapVolume(host.root / "mount")
    volume.write({"10.conf": ONE, "20.conf": ONE})
    real, copied = loading.read, list[str]()

    def exchange(source: str, **options: Any) -> Any:
        document = real(source, **options)
        copied.append(source)
        if len(copied) == last:
            volume.write({"10.conf": TWO, "20.conf": TWO, "30.conf": TWO})
        return document

    monkeypatch.setattr(loading, "read", exchange)
    assert apply(host, volume.path).stdout.startswith("now in use: 10.conf 20.conf 30.conf, hash ")
    assert plugins(host) == ["b", "b", "b"]


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (
            lambda path: path.symlink_to("/nonexistent"),
            "found a symlink to '/nonexistent', which does not exist",
        ),
        (os.mkfifo, "found a FIFO, expected a regular file"),
        (os.mkdir, "found a directory, expected a regular file"),
        (
            lambda path: path.symlink_to("/dev/zero"),
            "found a character device, expected a regular file",
        ),
        (
            lambda path: path.write_bytes(bytes(65537)),
            "found more than 65536 bytes, expected fewer",
        ),
    ],
)
def test_other_files_are_named_and_not_copied(
    host: Host, new: Path, make: Callable[[Path], object], fault: str
) -> None:
    make(new / "20.conf")
    make(new / "30.conf")
    ran = apply(host, new)
    assert (ran.status, ran.stderr.splitlines()[2:]) == (1, ["nothing has changed"])
    for name, line in zip(("20.conf", "30.conf"), ran.stderr.splitlines(), strict=False):
        assert line.startswith(f"{new}/{name}:1:1: (document): {fault}")
    assert sets(host) == []
    assert not os.path.lexists(host.conf)


def test_file_in_place_of_the_directory_stays(host: Host, new: Path) -> None:
    host.conf.write_text("kept")
    ran = apply(host, new)
    expected = f"{host.conf} is no directory: expected that of the host configuration\nnothing has changed\n"
    assert (ran.status, ran.stderr, host.conf.read_text()) == (1, expected, "kept")


def test_files_of_a_killed_apply_are_removed(host: Host, new: Path) -> None:
    left = host.folder("sets") / "left"
    left.mkdir()
    (host.root / "sets/.part").symlink_to("sets/left")
    assert apply(host, new).status == 0
    assert len(sets(host)) == 1


def test_a_directory_that_cannot_be_changed_is_named(host: Host, new: Path) -> None:
    (host.root / "sets").write_text("")
    done = apply(host, new)
    assert (done.status, done.stderr) == (
        1,
        f"cannot be applied: {host.root}/sets: File exists\n",
    )


def test_the_link_is_right_where_the_directories_above_are_links(host: Host, new: Path) -> None:
    (host.root / "deep/etc").mkdir(parents=True)
    (host.root / "etc").symlink_to("deep/etc")
    conf, elsewhere = host.root / "etc/resource.d", host.folder("elsewhere")
    options = ["--conf-dir", str(conf), "--bin-dir", str(host.bin), "--sets", str(elsewhere)]
    assert inside("apply", *options, "--no-check-owner", str(new)).status == 0
    assert [each.name for each in conf.iterdir()] == ["10.conf"]


def test_unprintable_names_leave_no_node_without_a_configuration(host: Host, new: Path) -> None:
    host.configure_text(TWO, name="05.conf")
    with open("/dev/full", "w") as full:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        code = "from nri.cli.entry import main; main()"
        words = [sys.executable, "-c", code, "apply", str(new), *host.options]
        subprocess.run(words, stdout=full, stderr=subprocess.DEVNULL, env=environment, check=False)
    assert plugins(host) == ["a"]
    assert (host.root / "before/resource.d/05.conf").read_text() == TWO


@pytest.mark.parametrize("fault", ["symlink", "rename"])
def test_a_failed_exchange_changes_nothing(
    host: Host, new: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    host.configure_text(TWO, name="05.conf")
    real = getattr(os, fault)

    def fail(source: str, target: str) -> None:
        if fault == "symlink" or source.endswith(".part"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        real(source, target)

    monkeypatch.setattr(os, fault, fail)
    assert apply(host, new).status == 1
    assert plugins(host) == ["b"]


def test_refused_set_is_kept_until_a_directory_is_accepted(host: Host, new: Path) -> None:
    assert apply(host, new).status == 0
    (new / "10.conf").write_text(ONE.replace("a", "nowhere", 1))
    (new / "20.conf.bak").touch()  # a note, which is not wanted beside a fault
    done = apply(host, new)
    first = refused.read(str(host.conf))
    assert done.status == 1
    assert done.stderr.startswith(f"{new}/10.conf:1:")
    assert first is not None
    assert (first.source, first.faults[0]) == (str(new), done.stderr.splitlines()[0])
    assert apply(host, new).status == 1
    assert refused.read(str(host.conf)) == first  # since the first time
    assert (
        f"note: what `nri apply {new}` was to bring in was refused" in command(host, "check").stderr
    )
    (new / "10.conf").unlink()
    assert apply(host, new).status == 1
    second = refused.read(str(host.conf))
    assert second is not None
    assert second.since > first.since
    (new / "10.conf").write_text(TWO)
    assert apply(host, new).status == 0
    assert refused.read(str(host.conf)) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"since": "x", "source": "", "faults": []}', '{"since": 1}']
)
def test_file_of_a_refusal_is_not_trusted(tmp_path: Path, content: str) -> None:
    directory = str(tmp_path / "resource.d")
    Path(refused.path_of(directory)).write_text(content)
    found = refused.read(directory)
    assert found is not None
    assert found.faults == (f"{directory}.refused: found other content than `nri apply` writes",)
    Path(refused.path_of(directory)).unlink()
    os.mkfifo(refused.path_of(directory))
    found = refused.read(directory)
    assert found is not None
    assert found.faults == (f"{directory}.refused: found a FIFO, expected a regular file",)


def test_another_apply_waits_until_this_one_has_ended(host: Host, new: Path) -> None:
    said = host.root / "said"
    check = f'flock -n "{host.root}/sets" true && echo free >>"{said}" || echo held >>"{said}"'
    host.script(
        "a", f'#!/bin/sh\n{check}\n[ "$1" = invoke ] || exit 3\ncat >/dev/null\necho "{{}}"\n'
    )
    assert apply(host, new).status == 0
    assert {*said.read_text().split()} == {"held"}
    subprocess.run(["flock", "-n", host.root / "sets", "true"], check=True)
