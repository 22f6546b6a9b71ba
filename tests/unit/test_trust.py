"""Whose a file or directory must be to be used, and what is said about others."""

import os
import stat
import sys
from pathlib import Path

import pytest

from nri import trust
from nri.client import Invoker, PluginError
from nri.config import ConfigError, load

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


@pytest.mark.parametrize(
    "mode", [FILE | 0o644, FILE | 0o600, FILE | 0o4755, FILE, FILE | 0o664, DIRECTORY | 0o2775]
)
def test_files_of_root_are_trusted_by_every_user(user: int, mode: int) -> None:
    assert trust.judge(status(mode)) == ""


def test_files_of_our_own_user_are_trusted(user: int) -> None:
    group = os.getegid()
    assert trust.judge(status(FILE | 0o644, user, EVIL)) == ""
    assert trust.judge(status(FILE | 0o664, user, group)) == ""
    assert trust.judge(status(FILE | 0o664, user, 0)) == ""


@pytest.mark.parametrize(
    ("found", "what", "mode"),
    [
        (
            status(FILE | 0o666, EVIL),
            "is writable by others (mode 0666, owner 4711, group 0)",
            "0644",
        ),
        (status(FILE | 0o666), "is writable by others (mode 0666, owner 0, group 0)", "0644"),
        (status(FILE | 0o602), "is writable by others (mode 0602, owner 0)", "0600"),
        (
            status(FILE | 0o775, 0, EVIL),
            "is writable by others (mode 0775, owner 0, group 4711)",
            "0755",
        ),
        (
            status(FILE | 0o6777, EVIL),
            "is writable by others (mode 6777, owner 4711, group 0)",
            "0755",
        ),
        (status(DIRECTORY | 0o1777), "is writable by others (mode 1777, owner 0, group 0)", "0755"),
        (status(FILE | 0o644, EVIL), "is another user's (mode 0644, owner 4711)", "0644"),
        (status(FILE | 0o400, EVIL, EVIL), "is another user's (mode 0400, owner 4711)", "0400"),
        (status(DIRECTORY | 0o700, EVIL), "is another user's (mode 0700, owner 4711)", "0700"),
    ],
)
def test_untrusted_path_is_named_with_what_is_expected(
    user: int, found: os.stat_result, what: str, mode: str
) -> None:
    whose = f"root's or user {user}'s" if user else "root's"
    assert trust.judge(found) == f"{what}; expected it to be {whose}, and mode {mode}"


class Place:
    """A plugin, and a file of configuration, each in a directory of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("first", "bin", "resource.d", "user", "end"):
            (root / name).mkdir(mode=0o755)
        self.plugin, self.conf = root / "bin/noop", root / "resource.d/10.conf"
        self.plugin.write_text(f"#!{sys.executable}\n")
        self.plugin.chmod(0o755)
        self.conf.write_text('{"version": "0.1", "plugins": [{"type": "noop"}]}')
        self.conf.chmod(0o644)

    def link(self) -> None:
        """Both are links now, through another directory to files of the same names in a third one."""
        for path in (self.plugin, self.conf):
            path.rename(self.root / "end" / path.name)
            (self.root / "user" / path.name).symlink_to(f"../end/{path.name}")
            path.symlink_to(f"../user/{path.name}")

    def find(self, *, check_owner: bool = True) -> str:
        """The error without the places; "" where it is found."""
        try:
            Invoker(
                [str(self.root / "first"), str(self.root / "bin")], check_owner=check_owner
            ).find("noop")
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
def test_files_that_only_the_owner_can_write_to_are_used(place: Place, linked: bool) -> None:
    if linked:
        place.link()
    assert (place.find(), place.load()) == ("", [])


def test_file_that_others_can_write_to_is_not_used(place: Place) -> None:
    place.conf.write_text("what they wrote")
    open_to_all(place.plugin)
    open_to_all(place.conf)
    assert place.find().startswith(f"not run: /bin/noop{OPEN}0757, owner ")
    assert place.find().endswith(", and mode 0755")
    (fault,) = place.load()
    assert fault.startswith(
        "/resource.d/10.conf:1:1: (document): is writable by others (mode 0646, owner "
    )
    assert fault.endswith(", and mode 0644")
    assert "what they wrote" not in fault


@pytest.mark.parametrize("sticky", [0, 0o1020], ids=["plain", "as /tmp"])
def test_untrusted_directory_makes_all_its_files_unusable(place: Place, sticky: int) -> None:
    open_to_all(place.root / "bin", sticky)
    open_to_all(place.root / "resource.d", sticky)
    assert place.find().startswith(f"not run: /bin{OPEN}")
    (fault,) = place.load()
    assert fault.startswith("/resource.d:1:1: (document): is writable by others (mode ")
    place.conf.unlink()
    assert place.load() == [fault]  # it is no empty configuration


@pytest.mark.parametrize(
    ("opened", "error", "named"),
    [
        (
            ("end/noop", "end/10.conf"),
            "/bin/noop is a link to /end/noop, which is",
            "/resource.d/10.conf",
        ),
        (("end",), "/end is", "/end"),
        (("user",), "/user is", "/user"),  # whoever owns it decides where the chain leads
    ],
)
def test_each_directory_of_a_chain_and_its_end_are_judged(
    place: Place, opened: tuple[str, ...], error: str, named: str
) -> None:
    place.link()
    assert (place.find(), place.load()) == ("", [])
    for path in opened:
        open_to_all(place.root / path)
    assert place.find().startswith(f"not run: {error} writable by others (mode ")
    assert [fault.partition(":")[0] for fault in place.load()] == [named]


def test_untrusted_plugin_is_not_skipped_for_another(place: Place) -> None:
    second = place.root / "second"
    second.mkdir(mode=0o755)
    (second / "noop").symlink_to(place.plugin)
    open_to_all(second)
    with pytest.raises(PluginError, match="not run: "):
        Invoker([str(second), str(place.root / "bin")]).find("noop")
    with pytest.raises(PluginError, match="not run: "):
        Invoker([str(second)]).find("noop")


def test_the_single_file_and_its_directory_are_judged(place: Place) -> None:
    place.conf.rename(place.root / "conf.json")
    assert place.load() == []
    open_to_all(place.root)
    assert [fault.partition(":")[0] for fault in place.load()] == [""]
    place.root.chmod(0o700)
    open_to_all(place.root / "conf.json")
    assert [fault.partition(":")[0] for fault in place.load()] == ["/conf.json"]


def test_all_faults_come_at_once_and_each_directory_once(place: Place) -> None:
    for name in ("20.conf", "30.conf"):
        (place.root / "resource.d" / name).write_text("{")
    open_to_all(place.conf)
    open_to_all(place.root / "resource.d")
    files = [fault.partition(":")[0] for fault in place.load()]
    assert files == [
        "/resource.d",
        "/resource.d/10.conf",
        "/resource.d/20.conf",
        "/resource.d/30.conf",
    ]


@pytest.mark.parametrize("linked", [False, True])
def test_check_can_be_switched_off(place: Place, linked: bool) -> None:
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
    assert place.find().startswith(
        "not run: /bin/noop is another user's (mode 0755, owner 4711); expected it to be "
    )
    assert (
        "/10.conf:1:1: (document): is another user's (mode 0644, owner 4711); expected it to"
        in place.load()[0]
    )
    for path in (place.plugin, place.conf):
        os.chown(path, 0, EVIL)
        os.chown(path.parent, EVIL, 0)
    assert place.find().startswith(
        "not run: /bin is another user's (mode 0755, owner 4711); expected it to be root's"
    )
    assert [fault.partition(":")[0] for fault in place.load()] == ["/resource.d"]


# Links that lead to links


def test_link_in_the_middle_is_judged_by_its_directory(place: Place) -> None:
    for name in ("bin", "resource.d"):
        (place.root / name).rename(place.root / f"real-{name}")
        (place.root / "user" / name).symlink_to(f"../real-{name}")
        (place.root / name).symlink_to(f"user/{name}")
    assert (place.find(), place.load()) == ("", [])
    open_to_all(place.root / "user")
    assert place.find().startswith(f"not run: /user{OPEN}")
    assert [fault.partition(":")[0] for fault in place.load()] == ["/user"]
    place.root.joinpath("real-resource.d/10.conf").unlink()
    # Nor is it an empty configuration.
    assert [fault.partition(":")[0] for fault in place.load()] == ["/user"]


def test_a_chain_has_at_most_forty_links_as_for_the_kernel(place: Place) -> None:
    before = "end"
    for number in range(trust.MAX_LINKS + 1):
        link = place.root / f"link{number}"
        link.symlink_to(before)
        before = link.name
    last, one_more = (
        place.root / f"link{trust.MAX_LINKS - 1}",
        place.root / f"link{trust.MAX_LINKS}",
    )
    last.stat()
    assert trust.follow(str(last))[0] == str(place.root / "end")
    with pytest.raises(OSError, match="Too many levels"):
        one_more.stat()
    with pytest.raises(OSError, match="more than 40 links"):
        trust.follow(str(one_more))
    for path in (place.plugin, place.conf):
        path.rename(place.root / "end" / path.name)
        path.symlink_to(one_more / path.name)
    assert "/bin/noop cannot be looked at: Too many levels of symbolic links" in place.find()
    (fault,) = place.load()
    assert fault.startswith(
        "/resource.d/10.conf:1:1: (document): cannot be read: too many levels of symbolic links"
    )
    assert trust.at_end(str(place.plugin)) == ""


@pytest.mark.parametrize(
    ("path", "end", "named_in"),
    [
        ("a/b/file", "{root}/a/b/file", []),
        ("./a//b/./file", "{root}/a/b/file", []),
        ("a/../a/b/file", "{root}/a/b/file", []),
        ("one", "{root}/a/b/file", ["{root}"]),
        ("a/two", "{root}/a/b/file", ["{root}/a", "{root}"]),
        ("three/file", "{root}/a/b/file", ["{root}"]),
        ("three/up/one", "{root}/a/b/file", ["{root}", "{root}/a/b", "{root}"]),
        ("a/b/../../../{here}/one", "{root}/a/b/file", ["{root}"]),
        ("absolute", "{root}/a/b/file", ["{root}"]),
        ("{root}/absolute", "{root}/a/b/file", ["{root}"]),
        ("/..//{root}/one", "{root}/a/b/file", ["{root}"]),
        ("a/b/nothing", "{root}/a/b/nothing", []),
    ],
)
def test_a_path_is_followed_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, end: str, named_in: list[str]
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").touch()
    (tmp_path / "one").symlink_to("a/b/file")
    (tmp_path / "a/two").symlink_to("../one")
    (tmp_path / "three").symlink_to("a/b/")
    (tmp_path / "a/b/up").symlink_to("../..")
    (tmp_path / "absolute").symlink_to(tmp_path / "a/b/file")
    monkeypatch.chdir(tmp_path)
    path, end, *named_in = (
        text.format(here=tmp_path.name, root=tmp_path) for text in (path, end, *named_in)
    )
    assert trust.follow(path) == (end, named_in)
    if not path.endswith("nothing"):
        assert os.path.samefile(path, end)
    with pytest.raises(FileNotFoundError):
        trust.follow("nothing/file")


def test_a_descriptor_in_proc_ends_where_its_text_is_no_path() -> None:
    waits, says = os.pipe()
    try:
        path = f"/proc/self/fd/{waits}"
        assert trust.judge_path(path, os.fstat(waits)) == ""
        assert trust.directories(path)[-1] == f"/proc/{os.getpid()}/fd"
    finally:
        os.close(waits)
        os.close(says)


def test_in_a_user_namespace_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    nobodys = status(FILE | 0o644, 65534)
    assert trust.ROOTLESS not in trust.judge(nobodys)  # this namespace has all users
    monkeypatch.setattr(trust, "EVERYBODY", ["0", "1000", "1"])
    assert trust.judge(nobodys).endswith(f"; {trust.ROOTLESS}")
    assert trust.ROOTLESS not in trust.judge(status(FILE | 0o644, EVIL))
