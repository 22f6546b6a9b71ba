"""Loading: which files are read, in which order, and what cannot be read."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.config import ConfigError, ConfigList, Fault, PluginEntry, load, load_files
from nri.config.loading import MAX_SIZE


class Host:
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
    return '{"version":"0.1","plugins":[' + ",".join(f'{{"type":"{name}"}}' for name in types) + "]}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(str(tmp_path))


def test_files_are_read_in_the_byte_order_of_their_names(host: Host) -> None:
    for name in ("b.conf", "a.conf", "10-z.conf", "9-y.conf", "B.conf", "é.conf", "\udcff.conf"):
        host.write(name, name.split(".")[0].replace("é", "e-acute").replace("\udcff", "xFF"))
    assert host.types() == ["10-z", "9-y", "B", "a", "b", "e-acute", "xFF"]


def test_every_plugin_knows_its_file_and_its_place_there(host: Host) -> None:
    host.write("a.conf", "x", "y")
    host.write("b.conf", "x")
    assert [(p.type, p.source, p.source_index) for p in host.load().plugins] == [
        ("x", host.path("a.conf"), 0),
        ("y", host.path("a.conf"), 1),
        ("x", host.path("b.conf"), 0),
    ]


def test_the_single_file_is_read_alone_without_a_directory(host: Host) -> None:
    host.write("a.conf", "of-the-directory")
    host.write("../conf.json", "alone")
    assert [[plugin.type for plugin in each] for each in load_files("", host.conf_file).values()] == [["alone"]]
    os.unlink(host.conf_file)
    assert load_files("", host.conf_file) == {}


def test_all_of_an_entry_is_read(host: Host) -> None:
    text = """{
      "$schema": "urn:nri:v0.1:host-config", "version": "0.1", "x-why": "because",
      "plugins": [{"type": "a", "conf": {"b": [1]}, "states": ["setup"], "failurePolicy": "ignore", "timeout": 0.5,
                   "x-note": null}]
    }"""
    path = host.write_text("a.conf", text)
    entry = PluginEntry(
        type="a", conf={"b": [1]}, states=["setup"], failure_policy="ignore", timeout=0.5, source=path, source_index=0
    )
    assert host.load() == ConfigList(plugins=[entry])


@pytest.mark.parametrize(
    "name", ["a.conf~", "a.conf.bak", ".a.conf", "a.json", "#a.conf#", "a.CONF", "conf", "README"]
)
def test_what_is_no_conf_is_left_alone(host: Host, name: str) -> None:
    host.write_text(name, "not JSON")
    assert host.types() == []


def test_the_single_file_is_read_where_the_directory_holds_no_conf(host: Host) -> None:
    host.write_text("../conf.json", config("single"))
    host.write_text("a.conf.bak", "not JSON")
    assert host.types() == ["single"]
    assert host.load().plugins[0].source == host.conf_file


def test_the_single_file_is_read_where_there_is_no_directory(host: Host) -> None:
    host.write_text("../conf.json", config("single"))
    os.rmdir(host.conf_dir)
    assert host.types() == ["single"]


@pytest.mark.parametrize("name", ["a.conf", "empty.conf"])
def test_the_single_file_is_not_looked_at_where_the_directory_holds_a_conf(host: Host, name: str) -> None:
    host.write_text("../conf.json", "not JSON")
    host.write(name)
    assert host.types() == []


def test_no_configuration_at_all_is_no_plugins(host: Host) -> None:
    assert host.load() == ConfigList()
    os.rmdir(host.conf_dir)
    assert host.load() == ConfigList()


def test_a_symlink_is_followed(host: Host) -> None:
    host.write_text("../elsewhere", config("linked"))
    os.symlink("../elsewhere", host.path("a.conf"))
    assert host.types() == ["linked"]
    assert host.load().plugins[0].source == host.path("a.conf")


def make_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:  # a socket's path may be a hundred characters long
            server.bind(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        finally:
            os.close(directory)


NO_FILES = [
    (os.mkdir, "found a directory, expected a file of JSON"),
    (os.mkfifo, "found a FIFO, expected a file of JSON"),
    (make_socket, "found a socket, expected a file of JSON"),
    (lambda path: os.symlink("/dev/null", path), "found a character device, expected a file of JSON"),
    (lambda path: os.symlink("nowhere", path), "found a symlink to 'nowhere', which does not exist"),
    (lambda path: os.symlink(path, path), "cannot be read: too many levels of symbolic links"),
]


@pytest.mark.parametrize(("make", "message"), NO_FILES)
def test_what_is_no_file_is_a_fault_and_does_not_block(
    host: Host, make: Callable[[str], object], message: str
) -> None:
    make(host.path("x.conf"))
    fault = host.fault()
    assert fault.message.startswith(message)
    assert str(fault).startswith(f"{host.path('x.conf')}:1:1: (document): ")


@pytest.mark.parametrize(("make", "message"), NO_FILES)
def test_what_is_no_file_is_a_fault_at_the_single_files_place_too(
    host: Host, make: Callable[[str], object], message: str
) -> None:
    make(host.conf_file)
    assert host.fault().message.startswith(message)


def test_a_file_that_may_not_be_read_is_a_fault(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.write("a.conf", "a")

    def denied(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    assert host.fault().message == "cannot be read: permission denied, expected a file of JSON that can be read"


def test_a_file_that_became_a_fifo_since_it_was_looked_at_does_not_block(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("a.conf", "a")
    looked_at = os.stat(host.path("a.conf"))
    os.unlink(host.path("a.conf"))
    os.mkfifo(host.path("a.conf"))
    monkeypatch.setattr(os, "stat", lambda path: looked_at)
    assert host.fault().message == "found a FIFO, expected a file of JSON"


def test_a_file_that_is_removed_after_the_directory_was_listed_is_not_there(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("b.conf", "b")
    monkeypatch.setattr(os, "listdir", lambda path: ["a.conf", "b.conf"])
    assert host.types() == ["b"]


def test_a_file_that_is_too_big_is_a_fault(host: Host) -> None:
    host.write_text("a.conf", config("a") + " " * (MAX_SIZE - len(config("a"))))
    assert host.types() == ["a"]
    host.write_text("a.conf", config("a") + " " * MAX_SIZE)
    assert "found more than 1048576 bytes" in host.fault().message


def test_a_directory_that_is_none_or_cannot_be_read_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(str(tmp_path))
    host.write_text("../conf.json", config("single"))
    os.rmdir(host.conf_dir)
    os.symlink("nowhere", host.conf_dir)
    assert host.fault().message == "found a symlink to 'nowhere', which does not exist, expected a directory"
    os.unlink(host.conf_dir)
    with open(host.conf_dir, "w"):
        pass
    assert host.fault().message.startswith("cannot be read: not a directory, expected a directory of *.conf files")

    def denied(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", denied)
    assert host.fault().file == host.conf_dir
    assert host.fault().message.startswith("cannot be read: permission denied")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_real_permissions_are_faults_too(host: Host) -> None:
    host.write("a.conf", "a")
    os.chmod(host.path("a.conf"), 0)
    assert "permission denied" in host.fault().message


def test_all_faults_of_all_files_come_at_once_in_order(host: Host) -> None:
    host.write_text("c.conf", '{"version":"0.2"}')
    host.write_text("b.conf", "{")
    host.write_text("a.conf", "")
    os.mkdir(host.path("d.conf"))
    host.write("e.conf", "good")
    faults = host.faults()
    assert [os.path.basename(fault.file) for fault in faults] == ["a.conf", "b.conf", "c.conf", "c.conf", "d.conf"]


def test_an_error_is_one_line_for_each_fault(host: Host) -> None:
    host.write_text("a.conf", "{")
    host.write_text("evil\n\x1b[31m\udcff.conf", "[]")
    with pytest.raises(ConfigError) as raised:
        host.load()
    lines = str(raised.value).split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert r"evil\n\x1b[31m\udcff.conf:1:1: (document): found an array" in lines[1]


# What takes long to be explained


def test_whoever_cannot_wait_has_the_verdict_at_once_and_what_is_wrong_when_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = importlib.import_module("nri.config.diagnostics")
    diagnosed = []
    real = diagnosis.diagnose

    def diagnose(*arguments: Any) -> Any:
        diagnosed.append(arguments[0])
        return real(*arguments)

    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    (tmp_path / "10.conf").write_text("{")
    (tmp_path / "20.conf").mkdir()
    with pytest.raises(ConfigError) as caught:
        load_files(str(tmp_path), "/nonexistent")
    assert [str(fault) for fault in caught.value.faults] == [
        f"{tmp_path}/10.conf:1:1: (document): is not a valid configuration; `nri check` says what is wrong",
        f"{tmp_path}/20.conf:1:1: (document): found a directory, expected a file of JSON",
    ]
    assert diagnosed == []
    explained = caught.value.explained().faults
    assert [fault.line for fault in explained] == [1, 1]
    assert explained[0].message.startswith("expecting property name")
    assert explained[1] == caught.value.faults[1]
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path), "/nonexistent")
    assert caught.value.faults == explained


def test_the_files_that_are_there_have_their_plugins_also_where_these_are_none(tmp_path: Path) -> None:
    (tmp_path / "10.conf").write_text('{"version": "0.1", "plugins": []}')
    (tmp_path / "20.conf").write_text('{"version": "0.1", "plugins": [{"type": "a"}]}')
    files = load_files(str(tmp_path), "/nonexistent")
    assert {path: [plugin.type for plugin in plugins] for path, plugins in files.items()} == {
        f"{tmp_path}/10.conf": [],
        f"{tmp_path}/20.conf": ["a"],
    }
    assert load_files("/nonexistent", "/nonexistent") == {}


def test_a_hundred_faults_are_listed_and_that_there_are_more(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}.conf").write_text('{"version": "0.1", "plugins": [{}, {"type": 1}]}')
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path), "/nonexistent")
    assert len(caught.value.faults) == 101
    assert (
        str(caught.value.faults[-1]) == f"{tmp_path}/50.conf:1:1: (document): there are more faults; 100 are listed"
    )
