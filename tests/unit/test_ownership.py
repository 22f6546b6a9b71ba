"""Whose a file or directory must be to be used, and what is said about others."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from nri import ownership
from nri.client import PluginError, find
from nri.config import ConfigError, load

if TYPE_CHECKING:
    from pathlib import Path

EVIL = 4711
"""A user and a group that are neither root's nor ours."""


def status(mode: int, owner: int = 0, group: int = 0) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, owner, group, 1, 0, 0, 0))


@pytest.fixture(params=[0, 1000], ids=["as root", "as a user"])
def user(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Who we are; our group is 100 more."""
    number: int = request.param
    monkeypatch.setattr(os, "geteuid", lambda: number)
    monkeypatch.setattr(os, "getegid", lambda: number + 100 if number else 0)
    return number


FILE, DIRECTORY = stat.S_IFREG, stat.S_IFDIR


@pytest.mark.parametrize("mode", [FILE | 0o644, FILE | 0o600, FILE | 0o4755, FILE, FILE | 0o664, DIRECTORY | 0o2775])
def test_what_is_roots_may_be_used_by_everybody(user: int, mode: int) -> None:
    assert ownership.judge(status(mode)) == ""


def test_what_is_our_own_may_be_used(user: int) -> None:
    group = os.getegid()
    assert ownership.judge(status(FILE | 0o644, user, EVIL)) == ""
    assert ownership.judge(status(FILE | 0o664, user, group)) == ""
    assert ownership.judge(status(FILE | 0o664, user, 0)) == ""


@pytest.mark.parametrize(
    ("found", "what", "mode"),
    [
        (status(FILE | 0o666, EVIL), "is writable by others (mode 0666, owner 4711, group 0)", "0644"),
        (status(FILE | 0o666), "is writable by others (mode 0666, owner 0, group 0)", "0644"),
        (status(FILE | 0o602), "is writable by others (mode 0602, owner 0)", "0600"),
        (status(FILE | 0o775, 0, EVIL), "is writable by others (mode 0775, owner 0, group 4711)", "0755"),
        (status(FILE | 0o6777, EVIL), "is writable by others (mode 6777, owner 4711, group 0)", "0755"),
        (status(DIRECTORY | 0o1777), "is writable by others (mode 1777, owner 0, group 0)", "0755"),
        (status(FILE | 0o644, EVIL), "is another user's (mode 0644, owner 4711)", "0644"),
        (status(FILE | 0o400, EVIL, EVIL), "is another user's (mode 0400, owner 4711)", "0400"),
        (status(DIRECTORY | 0o700, EVIL), "is another user's (mode 0700, owner 4711)", "0700"),
    ],
)
def test_what_others_can_change_is_named_with_what_would_be_right(
    user: int, found: os.stat_result, what: str, mode: str
) -> None:
    whose = f"root's or user {user}'s" if user else "root's"
    assert ownership.judge(found) == f"{what}; expected it to be {whose}, and mode {mode}"


class Place:
    """A plugin, and a file of configuration, each in a directory of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "resource.d", "end"):
            (root / name).mkdir(mode=0o755)
        self.plugin, self.conf = root / "bin/noop", root / "resource.d/10.conf"
        self.plugin.write_text(f"#!{sys.executable}\n")
        self.plugin.chmod(0o755)
        self.conf.write_text('{"version": "0.1", "plugins": [{"type": "noop"}]}')
        self.conf.chmod(0o644)

    def link(self) -> None:
        """Both are links now, to files of the same names in another directory."""
        for path in (self.plugin, self.conf):
            path.rename(self.root / "end" / path.name)
            path.symlink_to(f"../end/{path.name}")

    def find(self, *, check_owner: bool = True) -> str:
        """The error without the places; "" where it is found."""
        try:
            find("noop", [str(self.root / "nowhere"), str(self.root / "bin")], check_owner=check_owner)
        except PluginError as error:
            return error.reason.replace(str(self.root), "")
        return ""

    def load(self, *, check_owner: bool = True) -> list[str]:
        """The faults without the places; nothing where it is read."""
        conf_dir, conf_file = str(self.root / "resource.d"), str(self.root / "conf.json")
        try:
            assert len(load(conf_dir, conf_file, check_owner=check_owner).plugins) == 1
        except ConfigError as error:
            return [str(fault).replace(str(self.root), "") for fault in error.faults]
        return []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def open_to_all(path: Path, more: int = 0) -> None:
    path.chmod(path.stat().st_mode | 0o002 | more)


OPEN = " is writable by others (mode "


@pytest.mark.parametrize("linked", [False, True])
def test_what_nobody_else_can_write_to_is_used(place: Place, linked: bool) -> None:
    if linked:
        place.link()
    assert (place.find(), place.load()) == ("", [])


def test_a_file_that_others_can_write_to_is_not_used(place: Place) -> None:
    open_to_all(place.plugin)
    open_to_all(place.conf)
    assert place.find().startswith(f"not run: /bin/noop{OPEN}0757, owner ")
    assert place.find().endswith(", and mode 0755")
    (fault,) = place.load()
    assert fault.startswith("/resource.d/10.conf:1:1: (document): is writable by others (mode 0646, owner ")
    assert fault.endswith(", and mode 0644")


@pytest.mark.parametrize("sticky", [0, 0o1020], ids=["plain", "as /tmp"])
def test_a_directory_that_others_can_write_to_makes_everything_in_it_unusable(place: Place, sticky: int) -> None:
    open_to_all(place.root / "bin", sticky)
    open_to_all(place.root / "resource.d", sticky)
    assert place.find().startswith(f"not run: /bin{OPEN}")
    (fault,) = place.load()
    assert fault.startswith("/resource.d:1:1: (document): is writable by others (mode ")


def test_a_link_is_judged_at_its_end(place: Place) -> None:
    place.link()
    for path in ("noop", "10.conf"):
        open_to_all(place.root / "end" / path)
    assert place.find().startswith("not run: /bin/noop is a link to /end/noop, which is writable by others (mode ")
    (fault,) = place.load()
    assert fault.startswith("/resource.d/10.conf:1:1: (document): is a link to /end/10.conf, which is writable by")


def test_the_directory_of_a_links_end_is_judged(place: Place) -> None:
    place.link()
    open_to_all(place.root / "end")
    assert place.find().startswith(f"not run: /end{OPEN}")
    assert [fault.partition(":")[0] for fault in place.load()] == ["/end"]


def test_the_directory_of_a_link_is_judged(place: Place) -> None:
    place.link()
    open_to_all(place.root / "bin")
    open_to_all(place.root / "resource.d")
    assert place.find().startswith(f"not run: /bin{OPEN}")
    assert [fault.partition(":")[0] for fault in place.load()] == ["/resource.d"]


def test_an_untrusted_plugin_is_not_passed_over_for_one_of_another_directory(place: Place) -> None:
    second = place.root / "second"
    second.mkdir(mode=0o755)
    (second / "noop").symlink_to(place.plugin)
    open_to_all(second)
    with pytest.raises(PluginError, match="not run: "):
        find("noop", [str(second), str(place.root / "bin")])
    with pytest.raises(PluginError, match="not run: "):
        find("noop", [str(second)])


def test_an_empty_directory_that_others_can_write_to_is_no_empty_configuration(place: Place) -> None:
    place.conf.unlink()
    open_to_all(place.root / "resource.d")
    assert [fault.partition(":")[0] for fault in place.load()] == ["/resource.d"]


def test_the_single_file_and_its_directory_are_judged(place: Place) -> None:
    place.conf.rename(place.root / "conf.json")
    assert place.load() == []
    open_to_all(place.root)
    assert [fault.partition(":")[0] for fault in place.load()] == [""]
    place.root.chmod(0o700)
    open_to_all(place.root / "conf.json")
    assert [fault.partition(":")[0] for fault in place.load()] == ["/conf.json"]


def test_what_others_wrote_is_not_read(place: Place) -> None:
    place.conf.write_text("what they wrote")
    open_to_all(place.conf)
    assert "document): is writable by others" in place.load()[0]
    assert "what they wrote" not in "".join(place.load())


def test_all_faults_come_at_once_and_each_directory_once(place: Place) -> None:
    for name in ("20.conf", "30.conf"):
        (place.root / "resource.d" / name).write_text("{")
    open_to_all(place.conf)
    open_to_all(place.root / "resource.d")
    files = [fault.partition(":")[0] for fault in place.load()]
    assert files == ["/resource.d", "/resource.d/10.conf", "/resource.d/20.conf", "/resource.d/30.conf"]


@pytest.mark.parametrize("linked", [False, True])
def test_it_can_be_switched_off(place: Place, linked: bool) -> None:
    if linked:
        place.link()
    for path in (place.plugin, place.conf, *map(place.root.joinpath, ("bin", "resource.d", "end"))):
        open_to_all(path)
    assert place.find()
    assert place.load()
    assert (place.find(check_owner=False), place.load(check_owner=False)) == ("", [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_files_and_directories_are_not_used(place: Place) -> None:
    for path in (place.plugin, place.conf):
        os.chown(path, EVIL, EVIL)
    assert place.find().startswith("not run: /bin/noop is another user's (mode 0755, owner 4711); expected it to be ")
    assert "/10.conf:1:1: (document): is another user's (mode 0644, owner 4711); expected it to" in place.load()[0]
    for path in (place.plugin, place.conf):
        os.chown(path, 0, EVIL)
        os.chown(path.parent, EVIL, 0)
    assert place.find().startswith(
        "not run: /bin is another user's (mode 0755, owner 4711); expected it to be root's"
    )
    assert [fault.partition(":")[0] for fault in place.load()] == ["/resource.d"]


def test_looking_at_a_plain_plugin_costs_two_looks_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    for name in ("stat", "lstat"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda path, real=real: looks.append(path) or real(path))
    find("noop", [str(place.root / "bin")], check_owner=False)
    without = len(looks)
    find("noop", [str(place.root / "bin")])
    assert len(looks) - 2 * without <= 2
