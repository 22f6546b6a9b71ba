"""Loading: which files are read, in which order, and what cannot be read."""

import errno
import importlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri import files
from nri.config import ConfigError, ConfigList, Fault, PluginEntry, load
from nri.config.loading import MAX_SIZE, read_set
from tests.support.processes import open_fds
from tests.support.system_faults import Failing

loading = importlib.import_module("nri.config.loading")  # the package's `load` is the function


class EtcNri:
    """A host's /etc/nri in a directory of the test."""

    def __init__(self, root: str) -> None:
        self.conf_dir = os.path.join(root, "resource.d")
        self.conf_file = os.path.join(root, "conf.json")
        os.mkdir(self.conf_dir)

    def path(self, name: str) -> str:
        return os.path.join(self.conf_dir, name)

    def write(self, name: str, *types: str) -> None:
        self.write_text(name, config(*types))

    def write_text(self, name: str, text: str | bytes) -> str:
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def load(self) -> ConfigList:
        return load(self.conf_dir, self.conf_file)

    def types(self) -> list[str]:
        return [plugin.type for plugin in self.load().plugins]

    def faults(self) -> tuple[Fault, ...]:
        with pytest.raises(ConfigError) as raised:
            self.load()
        return raised.value.faults

    def fault(self) -> Fault:
        (fault,) = self.faults()
        return fault


def config(*types: str) -> str:
    return (
        '{"version":"0.1","plugins":[' + ",".join(f'{{"type":"{name}"}}' for name in types) + "]}"
    )


@pytest.fixture
def host(tmp_path: Path) -> EtcNri:
    return EtcNri(str(tmp_path))


def test_files_are_read_in_the_byte_order_of_their_names(host: EtcNri) -> None:
    for name in ("b.conf", "a.conf", "10-z.conf", "9-y.conf", "B.conf", "é.conf", "\udcff.conf"):
        host.write(name, name.split(".")[0].replace("é", "e-acute").replace("\udcff", "xFF"))
    assert host.types() == ["10-z", "9-y", "B", "a", "b", "e-acute", "xFF"]


def test_every_plugin_knows_its_file_and_its_place_there(host: EtcNri) -> None:
    host.write("a.conf", "x", "y")
    host.write("../elsewhere", "x")
    os.symlink("../elsewhere", host.path("b.conf"))
    assert [(p.type, p.source, p.source_index) for p in host.load().plugins] == [
        ("x", host.path("a.conf"), 0),
        ("y", host.path("a.conf"), 1),
        ("x", host.path("b.conf"), 0),
    ]


def test_all_keys_of_an_entry_are_read(host: EtcNri) -> None:
    text = """{
      "$schema": "urn:nri:v0.1:host-config", "version": "0.1", "x-why": "because",
      "plugins": [{"type": "a", "conf": {"b": [1]}, "states": ["setup"], "failurePolicy": "ignore", "timeout": 0.5,
                   "x-note": null}]
    }"""
    path = host.write_text("a.conf", text)
    entry = PluginEntry(
        type="a",
        conf={"b": [1]},
        states=["setup"],
        failure_policy="ignore",
        timeout=0.5,
        source=path,
        source_index=0,
    )
    assert host.load() == ConfigList(plugins=[entry])


def test_only_conf_files_are_read(host: EtcNri) -> None:
    for name in (
        "a.conf~",
        "a.conf.bak",
        ".a.conf",
        "a.json",
        "#a.conf#",
        "a.CONF",
        "conf",
        "README",
    ):
        host.write_text(name, "not JSON")
    assert host.types() == []


def test_single_file_is_read_alone_or_if_the_directory_has_no_conf(host: EtcNri) -> None:
    host.write("../conf.json", "single")
    host.write_text("a.conf.bak", "not JSON")
    assert [(plugin.type, plugin.source) for plugin in host.load().plugins] == [
        ("single", host.conf_file)
    ]
    host.write("empty.conf")
    assert [*read_set(host.conf_dir, host.conf_file).documents] == [host.path("empty.conf")]
    assert [*read_set("", host.conf_file).documents] == [host.conf_file]
    os.unlink(host.conf_file)
    assert read_set("", host.conf_file).documents == {}
    os.unlink(host.path("empty.conf"))
    os.unlink(host.path("a.conf.bak"))
    assert host.load() == ConfigList()
    os.rmdir(host.conf_dir)
    assert (
        host.fault().message
        == "does not exist; expected a directory, since it is not the default one"
    )


# Files that cannot be read


def make_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:  # a socket's path may be a hundred characters long
            server.bind(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        finally:
            os.close(directory)


NO_FILES = [
    (os.mkdir, "found a directory, expected a regular file"),
    (os.mkfifo, "found a FIFO, expected a regular file"),
    (make_socket, "found a socket, expected a regular file"),
    (
        lambda path: os.symlink("/dev/null", path),
        "found a character device, expected a regular file",
    ),
    (
        lambda path: os.symlink("nowhere", path),
        "found a symlink to 'nowhere', which does not exist",
    ),
    (lambda path: os.symlink(path, path), "cannot be read: too many levels of symbolic links"),
]


@pytest.mark.parametrize(("make", "message"), NO_FILES)
def test_anything_but_a_file_is_a_fault_and_does_not_block(
    host: EtcNri, make: Callable[[str], object], message: str
) -> None:
    make(host.conf_file)
    assert host.fault().message.startswith(message)
    make(host.path("x.conf"))
    assert str(host.fault()).startswith(f"{host.path('x.conf')}:1:1: (document): {message}")


def test_file_that_became_a_fifo_does_not_block(
    host: EtcNri, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("a.conf", "a")
    looked_at = os.stat(host.path("a.conf"))
    os.unlink(host.path("a.conf"))
    os.mkfifo(host.path("a.conf"))
    monkeypatch.setattr(os, "stat", lambda path, **_: looked_at)
    assert host.fault().message == "found a FIFO, expected a regular file"


def test_file_removed_after_the_listing_is_skipped(
    host: EtcNri, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("b.conf", "b")
    monkeypatch.setattr(os, "listdir", lambda path: ["a.conf", "b.conf"])
    assert host.types() == ["b"]


def test_a_file_that_is_too_big_is_a_fault(host: EtcNri) -> None:
    host.write_text("a.conf", config("a") + " " * (MAX_SIZE - len(config("a"))))
    assert host.types() == ["a"]
    host.write_text("a.conf", config("a") + " " * MAX_SIZE)
    assert "found more than 65536 bytes" in host.fault().message


def test_a_conf_dir_that_is_no_directory_is_a_fault(host: EtcNri) -> None:
    host.write("../conf.json", "single")
    os.rmdir(host.conf_dir)
    os.symlink("nowhere", host.conf_dir)
    assert (
        host.fault().message
        == "found a symlink to 'nowhere', which does not exist, expected a directory of "
        "*.conf files that can be read"
    )
    os.unlink(host.conf_dir)
    Path(host.conf_dir).touch()
    assert host.fault().message.startswith(
        "cannot be read: not a directory, expected a directory of *.conf files"
    )


def test_all_faults_of_all_files_come_at_once_in_order(host: EtcNri) -> None:
    host.write_text("c.conf", '{"version":"0.2"}')
    host.write_text("b.conf", "{")
    host.write_text("a.conf", "")
    os.mkdir(host.path("d.conf"))
    host.write("e.conf", "good")
    faults = host.faults()
    assert [os.path.basename(fault.file) for fault in faults] == [
        "a.conf",
        "b.conf",
        "c.conf",
        "c.conf",
        "d.conf",
    ]


def test_an_error_is_one_line_for_each_fault(host: EtcNri) -> None:
    host.write_text("a.conf", "{")
    host.write_text("evil\n\x1b[31m\udcff.conf", "[]")
    with pytest.raises(ConfigError) as raised:
        host.load()
    lines = str(raised.value).split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert r"evil\n\x1b[31m\udcff.conf:1:1: (document): found an array" in lines[1]


def test_a_hundred_faults_are_listed(host: EtcNri) -> None:
    for number in range(60):
        host.write_text(f"{number:02}.conf", '{"version": "0.1", "plugins": [{}, {"type": 1}]}')
    *faults, last = host.faults()
    assert len(faults) == 100
    assert (
        str(last)
        == f"{host.path('50.conf')}:1:1: (document): there are more faults; 100 are listed"
    )


# System calls that fail


@pytest.mark.parametrize(
    ("call", "path", "expected"),
    [
        ("listdir", "", "a directory of *.conf files that can be read"),
        *((call, "a.conf", "a file of JSON that can be read") for call in ("open", "fstat")),
    ],
)
def test_a_call_that_fails_is_a_fault_that_names_the_file(
    host: EtcNri, monkeypatch: pytest.MonkeyPatch, call: str, path: str, expected: str
) -> None:
    host.write("a.conf", "a")
    before = open_fds()
    failing = Failing(os, call, errno.EMFILE)
    with monkeypatch.context() as patch:
        patch.setattr(files if path else loading, "os", failing)
        with pytest.raises(ConfigError) as raised:
            read_set(host.conf_dir, host.conf_file).parsed()
    assert failing.failed == 1
    where = host.path(path).rstrip("/")
    assert (
        str(raised.value)
        == f"{where}:1:1: (document): cannot be read: too many open files, expected {expected}"
    )
    assert open_fds() == before
    assert host.types() == ["a"]


def test_directory_that_disappears_has_no_files(
    host: EtcNri, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(Failing):
        """Between the listing, which says that there is none, and the look at why."""

        readlink = staticmethod(lambda path: os.readlink("/nonexistent"))

    host.write("a.conf", "a")
    monkeypatch.setattr(loading, "DEFAULT_CONF_DIR", host.conf_dir)
    monkeypatch.setattr(loading, "os", Gone(os, "listdir", errno.ENOENT))
    assert read_set(host.conf_dir, host.conf_file).documents == {}


def test_directory_exchanged_during_reading_gives_no_mixture(
    host: EtcNri, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        for file in ("10", "20"):
            host.write(f"{file}.conf", f"{name}{file}")
            Path(host.path(f"{file}.conf")).rename(tmp_path / name / f"{file}.conf")
    Path(host.conf_dir).rmdir()
    Path(host.conf_dir).symlink_to(tmp_path / "old")
    real, read = loading.read, []

    def exchange(path: str, **options: Any) -> Any:
        read.append(path)
        if len(read) == 2:
            (tmp_path / "link").symlink_to(tmp_path / "new")
            (tmp_path / "link").rename(host.conf_dir)
        return real(path, **options)

    monkeypatch.setattr(loading, "read", exchange)
    assert host.types() == ["new10", "new20"]


def test_conf_keeps_lone_surrogates(host: EtcNri) -> None:
    """As for Go's json.RawMessage; an entry of the record, too."""
    host.write_text(
        "10.conf", '{"version": "0.1", "plugins": [{"type": "a", "conf": {"x": "\\ud800"}}]}'
    )
    (entry,) = host.load().plugins
    assert entry.conf == {"x": "\ud800"}
    assert PluginEntry.of_document(entry.document).key == entry.key
    assert b'"conf":{"x":"\\ud800"}' in ConfigList(plugins=[entry]).to_json()
