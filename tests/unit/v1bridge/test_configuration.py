"""The plugins' configuration as files change: with the next event, whole, and never for the worse."""

import errno
import gc
import importlib
import json
import logging
import os
import shutil
import sys
import threading

import pytest

from nri.v1bridge import absence
from nri.v1bridge import configuration as module
from nri.v1bridge.configuration import Configuration
from tests.support.waiting import SOON, wait_until

diagnosis = importlib.import_module("nri.config.diagnostics")
loading = importlib.import_module("nri.config.loading")  # the package's `load` is the function


def text(*types, **options):
    return json.dumps({"version": "0.1", "plugins": [{"type": each, **options} for each in types]})


class Node:
    """A directory of configuration, the file that stands in for it, and what is read of both."""

    def __init__(self, root):
        self.root = root
        self.directory, self.file = root / "resource.d", root / "conf.json"
        self.directory.mkdir()
        self.now = 1000.0
        self.configuration = Configuration(str(self.directory), str(self.file), lambda: self.now)

    @property
    def plugins(self):
        """Return the plugins that run; by then the log says what is wrong."""
        plugins = self.configuration.current().plugins
        self.configuration.explain()
        assert self.configuration.is_explained(SOON)
        return [plugin.type for plugin in plugins]

    def wait(self, seconds=absence.GRACE):
        """Let time pass; what is missing is noticed before."""
        self.configuration.current()
        self.now += seconds

    def put(self, name, *types):
        """In one step."""
        part = self.directory / f".{name}.part"
        part.write_text(text(*types))
        part.rename(self.directory / name)

    def age(self):
        """Nothing is recent any more: what is not seen to have changed is not read again."""
        for path in (self.root, self.directory, self.file, *self.directory.glob("*")):
            if path.exists():
                os.utime(path, ns=(1, 1))


@pytest.fixture
def node(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "nri.v1bridge")
    return Node(tmp_path)


@pytest.fixture
def reads(monkeypatch):
    """The configurations that were loaded."""
    made = []
    load = module.config.load_files
    monkeypatch.setattr(
        module.config, "load_files", lambda *paths, **options: made.append(paths) or load(*paths, **options)
    )
    return made


@pytest.fixture
def old(monkeypatch):
    """No file is recent."""
    monkeypatch.setattr(module, "RECENT_NS", -(10**12))


def said(caplog, level=logging.DEBUG):
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


# What changes


def test_where_there_is_nothing_no_plugin_runs_and_that_is_said_once(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "nri.v1bridge")
    configuration = Configuration(str(tmp_path / "none.d"), str(tmp_path / "none.json"))
    assert [configuration.current().plugins, configuration.current().plugins] == [(), ()]
    assert said(caplog) == ["configuration: no plugins"]


def test_a_change_counts_at_the_next_call_and_is_said(node, caplog):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("10.conf", "b", "c")
    assert node.plugins == ["b", "c"]
    node.put("10.conf")
    assert node.plugins == []
    assert said(caplog) == ["configuration: a", "configuration: b, c", "configuration: no plugins"]


def test_files_are_added_and_removed(node):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    node.put("05.conf", "c")
    assert node.plugins == ["c", "a", "b"]
    (node.directory / "10.conf").unlink()
    node.wait()
    assert node.plugins == ["c", "b"]
    (node.directory / "05.conf").rename(node.directory / "30.conf")
    assert node.plugins == ["b", "c"]
    (node.directory / "20.conf").rename(node.directory / "20.conf.off")
    node.wait()
    assert node.plugins == ["c"]


def test_the_directory_appears_and_vanishes(node):
    node.directory.rmdir()
    assert node.plugins == []
    node.directory.mkdir()
    assert node.plugins == []
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    shutil.rmtree(node.directory)
    node.wait()
    assert node.plugins == []
    node.directory.mkdir()
    node.put("10.conf", "b")
    assert node.plugins == ["b"]


def test_the_file_stands_in_for_a_directory_without_any_and_no_longer(node):
    node.file.write_text(text("f"))
    assert node.plugins == ["f"]
    assert node.configuration.current().plugins[0].source == str(node.file)
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.file.write_text(text("g"))
    assert node.plugins == ["a"]
    (node.directory / "10.conf").unlink()
    node.wait()
    assert node.plugins == ["g"]
    node.directory.rmdir()
    assert node.plugins == ["g"]
    node.file.unlink()
    node.wait()
    assert node.plugins == []


def test_the_same_plugins_out_of_another_file_have_that_source(node, old):
    node.file.write_text(text("a"))
    assert node.plugins == ["a"]
    node.put("10.conf", "a")
    assert node.configuration.current().plugins[0].source == str(node.directory / "10.conf")


def test_files_may_be_links_to_what_changes_elsewhere(node):
    (node.root / "one.json").write_text(text("a"))
    (node.root / "two.json").write_text(text("b"))
    (node.directory / "10.conf").symlink_to(node.root / "one.json")
    assert node.plugins == ["a"]
    (node.directory / "10.part").symlink_to(node.root / "two.json")
    (node.directory / "10.part").rename(node.directory / "10.conf")
    assert node.plugins == ["b"]
    (node.root / "two.json").write_text(text("c"))
    assert node.plugins == ["c"]


def test_a_file_written_over_in_place_within_one_tick_of_the_clock_is_read_again(node):
    path = node.directory / "10.conf"
    path.write_text(text("aa"))
    status = path.stat()
    for name in ("bb", "cc", "dd", "ee") * 50:
        with open(path, "r+", encoding="utf-8") as file:
            file.write(text(name))
        assert path.stat().st_size == status.st_size
        assert path.stat().st_ino == status.st_ino
        assert node.plugins == [name]


def test_a_change_that_leaves_no_trace_is_found_while_the_file_is_young_and_not_looked_for_later(
    node, monkeypatch, reads
):
    path = node.directory / "10.conf"
    path.write_text(text("aa"))
    now = os.stat(path).st_ctime_ns
    monkeypatch.setattr(module.time, "time_ns", lambda: now + module.RECENT_NS // 2)
    assert [node.plugins, node.plugins] == [["aa"], ["aa"]]
    assert len(reads) == 2
    monkeypatch.setattr(module.time, "time_ns", lambda: now + 2 * module.RECENT_NS)
    assert [node.plugins, node.plugins, node.plugins] == [["aa"]] * 3
    assert len(reads) == 3


def test_a_file_that_is_added_within_one_tick_of_the_clock_is_watched_from_then_on(node, monkeypatch):
    """The directory's time does not show it: so it is listed again while that time is recent."""
    node.put("10.conf", "a")
    stat, as_before = os.stat, os.stat(node.directory)
    recent = as_before.st_ctime_ns + module.RECENT_NS // 2
    added = node.directory / "20.conf"
    seen = []
    with monkeypatch.context() as patched:
        patched.setattr(module.time, "time_ns", lambda: recent)
        patched.setattr(
            os, "stat", lambda path, **how: as_before if path == str(node.directory) else stat(path, **how)
        )
        seen.append(node.plugins)
        added.write_text(text("b"))
        seen.append(node.plugins)
        patched.setattr(module.time, "time_ns", lambda: stat(added).st_ctime_ns + 2 * module.RECENT_NS)
        seen.append(node.plugins)
        added.write_text(text("bb"))
        seen.append(node.plugins)
    assert seen == [["a"], ["a", "b"], ["a", "b"], ["a", "bb"]]


def test_a_clock_that_was_set_back_costs_time_and_no_change(node, monkeypatch, reads):
    node.put("10.conf", "a")
    monkeypatch.setattr(module.time, "time_ns", lambda: 0)
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert len(reads) == 2


def test_what_has_not_changed_is_not_read_again(node, old, reads):
    node.put("10.conf", "a")
    first = node.configuration.current()
    assert all(node.configuration.current() is first for _ in range(10))
    assert len(reads) == 1
    os.utime(node.directory / "10.conf")
    assert node.plugins == ["a"]
    assert len(reads) == 2


# What is broken

BROKEN = '{"version": "0.1", "plugins": ['


def test_what_is_broken_from_the_start_runs_no_plugin_and_is_said_once(node, caplog):
    (node.directory / "10.conf").write_text(BROKEN)
    assert [node.plugins, node.plugins, node.plugins] == [[], [], []]
    (line,) = said(caplog)
    assert line.startswith("invalid configuration; still using the last valid one (no plugins): ")
    assert f"{node.directory}/10.conf:1:" in line
    node.put("10.conf", "a")
    assert node.plugins == ["a"]


def test_the_last_good_one_stays_and_each_fault_is_said_once(node, caplog):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    (node.directory / "10.conf").write_text(text("b", tpye=1, stats=[]))
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    os.utime(node.directory / "10.conf")
    assert node.plugins == ["a"]
    lines = said(caplog, logging.ERROR)
    assert len(lines) == 2
    assert all(line.startswith("invalid configuration; still using the last valid one (a): ") for line in lines)
    assert 'plugins[0].tpye: unknown key, did you mean "type"?' in lines[0]
    assert 'plugins[0].stats: unknown key, did you mean "states"?' in lines[1]


def test_another_fault_is_said_again_and_so_is_the_mending(node, caplog):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    for content in (BROKEN, "", text("../b"), BROKEN):
        (node.directory / "10.conf").write_text(content)
        assert node.plugins == ["a"]
    assert len(said(caplog, logging.ERROR)) == 4
    caplog.clear()
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    assert said(caplog) == ["configuration: a"]
    caplog.clear()
    (node.directory / "10.conf").write_text(BROKEN)
    assert node.plugins == ["a"]
    assert len(said(caplog, logging.ERROR)) == 1


@pytest.mark.parametrize("what", ["10.conf", "", "../conf.json", ".."])
def test_what_others_can_write_to_is_broken_until_it_is_put_right(node, caplog, old, what):
    single = what.startswith("..")
    if single:
        node.file.write_text(text("a"))
    else:
        node.put("10.conf", "a")
    assert node.plugins == ["a"]
    path = node.directory / what if what else node.directory
    mode = path.stat().st_mode
    path.chmod(mode | 0o002)
    caplog.clear()
    assert [node.plugins, node.plugins] == [["a"], ["a"]]
    (line,) = said(caplog)
    assert line.startswith("invalid configuration; still using the last valid one (a): ")
    assert "is writable by others (mode 0" in line
    path.chmod(mode)
    (node.file if single else node.directory / "10.conf").write_text(text("b"))
    assert node.plugins == ["b"]


def test_a_directory_that_is_put_right_is_seen_although_no_file_has_changed(node, caplog, old):
    end = node.root / "end"
    end.mkdir()
    (end / "10.conf").write_text(text("a"))
    (node.directory / "10.conf").symlink_to(end / "10.conf")
    end.chmod(0o757)
    assert [node.plugins, node.plugins] == [[], []]
    end.chmod(0o755)
    assert node.plugins == ["a"]


def test_whether_it_matters_may_change(node, old):
    node.put("10.conf", "a")
    (node.directory / "10.conf").chmod(0o666)
    read = node.configuration.current
    assert [plugin.type for plugin in read(check_owner=False).plugins] == ["a"]
    node.put("20.conf", "b")
    (node.directory / "10.conf").chmod(0o666)
    assert [plugin.type for plugin in read().plugins] == ["a"]
    assert [plugin.type for plugin in read(check_owner=False).plugins] == ["a", "b"]


def test_one_broken_file_keeps_the_others_changes_out_too(node):
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").write_text(BROKEN)
    node.put("20.conf", "c")
    assert node.plugins == ["a", "b"]
    node.put("10.conf", "d")
    assert node.plugins == ["d", "c"]


@pytest.mark.parametrize("kind", ["a directory", "a FIFO", "a link to nowhere", "a loop", "a binary", "a flood"])
def test_what_is_no_file_of_json_breaks_and_blocks_nothing(node, caplog, kind):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    other = node.directory / "20.conf"
    match kind:
        case "a directory":
            other.mkdir()
        case "a FIFO":
            os.mkfifo(other)
        case "a link to nowhere":
            other.symlink_to("/nowhere")
        case "a loop":
            other.symlink_to(other)
        case "a binary":
            other.write_bytes(bytes(range(256)))
        case "a flood":
            other.write_bytes(b" " * 2_000_000)
    assert node.plugins == ["a"]
    (line,) = said(caplog, logging.ERROR)
    assert str(other) in line


def test_permission_that_is_lost_keeps_the_last_good_one_until_it_is_back(node, caplog, monkeypatch):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    real = os.open
    path = str(node.directory / "10.conf")

    def refused(name, *arguments, **options):
        if name == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, *arguments, **options)

    with monkeypatch.context() as patched:  # root may read everything
        patched.setattr(loading.os, "open", refused)
        os.chmod(path, 0)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    os.chmod(path, 0o644)
    assert node.plugins == ["a"]
    assert [line.partition(":")[0] for line in said(caplog)] == [
        "invalid configuration; still using the last valid one (a)",
        "configuration",
    ]
    assert "permission denied" in said(caplog)[0]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EIO])
def test_what_fails_for_a_moment_is_tried_again_although_no_file_changes(node, old, monkeypatch, number):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("20.conf", "b")

    def failing(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(loading.os, "open", failing)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert node.plugins == ["a", "b"]


def test_a_directory_that_cannot_be_listed_keeps_the_last_good_one(node, monkeypatch):
    node.put("10.conf", "a")
    node.file.write_text(text("f"))
    assert node.plugins == ["a"]

    def refused(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", refused)
        os.chmod(node.directory, 0)
        assert node.plugins == ["a"]
    os.chmod(node.directory, 0o755)
    assert node.plugins == ["a"]


def test_names_that_are_no_text_are_said_in_one_printable_line(node, caplog):
    with open(os.path.join(os.fsencode(node.directory), b"10-\xff\n.conf"), "wb") as file:
        file.write(b"{")
    assert node.plugins == []
    (line,) = said(caplog)
    assert line.isprintable()


def test_the_plugins_that_stay_and_the_file_at_fault_are_named(node, caplog):
    node.put("10.conf", "konfine", "clearcfs")
    assert node.plugins == ["konfine", "clearcfs"]
    caplog.clear()
    (node.directory / "20.conf").write_text('{"version": "0.1", "plugins": [}')
    assert node.plugins == ["konfine", "clearcfs"]
    (line,) = said(caplog, logging.ERROR)
    start = "invalid configuration; still using the last valid one (konfine, clearcfs): "
    assert line.startswith(f"{start}{node.directory}/20.conf:1:32: ")


@pytest.mark.parametrize(
    "error", [ImportError("gone"), SystemExit("moved or deleted"), RecursionError(), MemoryError(), KeyError("a")]
)
@pytest.mark.parametrize("where", ["load_files", "_look"])
def test_whatever_goes_wrong_while_it_is_read_keeps_the_last_valid_one(node, caplog, monkeypatch, error, where):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()

    def fail(*_arguments, **_options):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(*((module.config, where) if where == "load_files" else (node.configuration, where)), fail)
        node.put("10.conf", "b")
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    (line,) = said(caplog)
    start = f"invalid configuration; still using the last valid one (a): {node.directory}:1:1: (document): "
    assert line == f"{start}cannot be read: {type(error).__name__}: {error}"
    assert node.plugins == ["b"]


def test_a_configuration_that_was_read_and_could_not_be_accepted_is_read_again(node, old, monkeypatch):
    """No file changes between the two events: only the memory is there again."""
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("10.conf", "b")

    def fail(*_arguments):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(node.configuration, "_accept", fail)
        assert [node.plugins, node.plugins] == [["a"], ["a"]]
    assert node.plugins == ["b"]


@pytest.mark.parametrize("error", [ImportError("gone"), SystemExit("moved or deleted"), RecursionError()])
def test_what_cannot_be_explained_is_said_all_the_same(node, caplog, monkeypatch, error):
    def fail(*_arguments):
        raise error

    monkeypatch.setattr(diagnosis, "diagnose", fail)
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    (node.directory / "10.conf").write_text(BROKEN)
    assert node.plugins == ["a"]
    lines = said(caplog, logging.ERROR)
    assert f"{node.directory}/10.conf:1:1: (document): is not a valid configuration; `nri check` says" in lines[0]
    assert lines[1].endswith(f"it cannot be explained: {type(error).__name__}: {error}")


# What takes long to be explained


@pytest.fixture
def slow(monkeypatch):
    """Explaining takes until it is told to end; returns what was begun, and that."""
    begun, end = [], threading.Event()
    real = diagnosis.diagnose

    def diagnose(file, document, limit):
        begun.append(document)
        assert end.wait(SOON)
        return real(file, document, limit)

    monkeypatch.setattr(diagnosis, "diagnose", diagnose)
    yield begun, end
    end.set()


def test_no_event_waits_for_an_explanation_and_the_newest_is_explained_next(node, caplog, slow):
    begun, end = slow
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    read = node.configuration.current
    for number in range(10):
        (node.directory / "10.conf").write_text(BROKEN + " " * number)
        assert [plugin.type for plugin in read().plugins] == ["a"]
        node.configuration.explain()
        assert wait_until(lambda: len(begun) == 1)
        assert len([each for each in threading.enumerate() if each.name == "explain"]) == 1
    assert said(caplog, logging.ERROR) == []
    end.set()
    assert node.configuration.is_explained(SOON)
    assert [len(document) for document in begun] == [len(BROKEN), len(BROKEN) + 9]
    assert len(said(caplog, logging.ERROR)) == 2


def test_threads_take_turns_as_before_when_a_configuration_has_been_explained(node, slow):
    begun, end = slow
    before = sys.getswitchinterval()
    node.put("10.conf", "a")
    (node.directory / "10.conf").write_text(BROKEN)
    node.configuration.current()
    node.configuration.explain()
    assert wait_until(lambda: len(begun) == 1)
    assert sys.getswitchinterval() < before
    end.set()
    assert node.configuration.is_explained(SOON)
    assert wait_until(lambda: sys.getswitchinterval() == before)


def test_nothing_more_is_said_of_faults_that_were_mended_meanwhile(node, caplog, slow):
    begun, end = slow
    (node.directory / "10.conf").write_text(BROKEN)
    node.configuration.current()
    node.configuration.explain()
    assert wait_until(lambda: begun)
    node.put("10.conf", "a")
    node.configuration.current()
    end.set()
    assert node.plugins == ["a"]
    assert said(caplog) == ["configuration: a"]


def test_where_no_thread_can_be_had_the_file_at_fault_is_named(node, caplog, monkeypatch):
    def refused(_self):
        raise RuntimeError("can't start new thread")

    (node.directory / "10.conf").write_text(BROKEN)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        assert node.plugins == []
    (line,) = said(caplog)
    assert f"{node.directory}/10.conf:1:1: (document): is not a valid configuration" in line


HUGE = {
    "20,000 entries": text(*["a"] * 20_000, tpye=1),
    "20,000 entries, the last is wrong": text(*["a"] * 20_000)[:-2] + ', {"type": 1}]}',
    "80,000 keys that are given twice": '{"version": "0.1", "plugins": [], ' + ", ".join(['"x-a": 1'] * 80_000) + "}",
    "80,000 unknown keys": '{"version": "0.1", ' + ", ".join([f'"{number}": 1' for number in range(80_000)]) + "}",
    "100,000 levels": "[" * 100_000,
    "deep states": '{"version": "0.1", "plugins": [{"type": "a", "states": [' + "[" * 200 + "]" * 200 + "]}]}",
    "240,000 states": text("a", states=[[], {}] * 120_000),
    "one string": json.dumps({"version": "0.1", "plugins": "a" * 1_000_000}),
    "one key": json.dumps({"version": "0.1", "plugins": [], "a" * 1_000_000: 1}),
    "one type": text("a" * 1_000_000),
}


@pytest.mark.parametrize("content", HUGE.values(), ids=HUGE)
def test_a_huge_file_is_explained_with_a_hundred_lines_at_most(node, caplog, content):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    caplog.clear()
    (node.directory / "20.conf").write_text(content)
    assert node.plugins == ["a"]
    lines = said(caplog)
    assert 1 <= len(lines) <= 101
    assert all(f"{node.directory}/20.conf:" in line for line in lines)
    assert all(len(line) < 1000 for line in lines)
    if len(lines) == 101:
        assert lines[-1].endswith("there are more faults; 100 are listed")


def test_nothing_of_a_huge_file_stays_in_memory(node):
    (node.directory / "10.conf").write_text(HUGE["20,000 entries"])
    gc.disable()
    try:
        assert node.plugins == []
        assert [each for each in gc.get_objects() if type(each).__module__ == "nri.config.source_positions"] == []
    finally:
        gc.enable()


def test_a_hundred_files_with_faults_have_a_hundred_lines_too(node, caplog):
    for number in range(150):
        (node.directory / f"{number:03}.conf").write_text(BROKEN)
    assert node.plugins == []
    assert len(said(caplog)) == 101


# What is suddenly gone


def test_files_that_are_gone_count_for_a_second_more_and_both_is_said_once(node, caplog):
    node.put("10.conf", "a", "b")
    assert node.plugins == ["a", "b"]
    caplog.clear()
    path = node.directory / "10.conf"
    path.unlink()
    assert [node.plugins, node.plugins] == [["a", "b"], ["a", "b"]]
    node.now += 0.9
    assert node.plugins == ["a", "b"]
    (line,) = said(caplog)
    assert line == f"missing: {path}; still using the last valid configuration (a, b) for 1 s"
    node.now += 0.1
    assert [node.plugins, node.plugins] == [[], []]
    assert said(caplog)[1:] == [f"configuration: no plugins; gone: {path}"]


def test_a_file_that_is_moved_away_and_written_anew_leaves_no_event_without_plugins(node, caplog):
    node.put("10.conf", "a")
    node.file.write_text(text("fallback"))
    assert node.plugins == ["a"]
    caplog.clear()
    for number in range(3):
        (node.directory / "10.conf").rename(node.directory / "10.conf.bak")
        assert node.plugins == ["a"] if number == 0 else [f"b{number - 1}"]
        with open(node.directory / "10.conf", "w", encoding="utf-8") as file:
            assert node.plugins[0] != "fallback"
            file.write(text(f"b{number}"))
        assert node.plugins == [f"b{number}"]
        node.now += 10
        assert node.plugins == [f"b{number}"]
    assert "no plugins" not in str(said(caplog))
    assert "fallback" not in str(said(caplog))


def test_a_directory_that_is_moved_aside_counts_until_the_new_one_is_there(node, caplog):
    node.put("10.conf", "a")
    node.file.write_text(text("fallback"))
    assert node.plugins == ["a"]
    node.directory.rename(node.root / "old.d")
    assert node.plugins == ["a"]
    node.directory.mkdir()
    assert node.plugins == ["a"]
    node.put("20.conf", "b")
    assert node.plugins == ["b"]
    assert said(caplog)[-1] == f"configuration: b; gone: {node.directory}/10.conf"


def test_a_file_that_comes_back_as_it_was_is_said_and_has_a_second_of_its_own_the_next_time(node, caplog):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    for _ in range(2):
        caplog.clear()
        (node.directory / "10.conf").rename(node.root / "aside")
        assert node.plugins == ["a"]
        node.now += 0.9
        (node.root / "aside").rename(node.directory / "10.conf")
        assert node.plugins == ["a"]
        assert [line.partition(":")[0] for line in said(caplog)] == ["missing", "configuration"]


def test_one_of_several_files_has_the_same_second_and_each_its_own(node, caplog):
    for name in "abc":
        node.put(f"{name}.conf", name)
    assert node.plugins == ["a", "b", "c"]
    (node.directory / "a.conf").unlink()
    assert node.plugins == ["a", "b", "c"]
    node.now += 0.6
    (node.directory / "c.conf").unlink()
    assert node.plugins == ["a", "b", "c"]
    node.now += 0.5
    assert node.plugins == ["b", "c"]
    node.now += 0.5
    assert node.plugins == ["b"]
    assert [line.partition(";")[0].replace(f"{node.directory}/", "") for line in said(caplog)] == [
        "configuration: a, b, c",
        "missing: a.conf",
        "missing: c.conf",
        "configuration: b, c",
        "configuration: b",
    ]


@pytest.mark.parametrize("change", ["a new file", "a file that has changed", "a new file without plugins"])
def test_with_anything_else_that_is_new_the_new_configuration_counts_at_once(node, change):
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").unlink()
    match change:
        case "a new file":
            node.put("30.conf", "c")
            assert node.plugins == ["b", "c"]
        case "a file that has changed":
            node.put("20.conf", "c")
            assert node.plugins == ["c"]
        case "a new file without plugins":
            node.put("30.conf")
            assert node.plugins == ["b"]


def test_no_plugins_in_a_file_that_is_there_counts_at_once(node, caplog):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    node.put("10.conf")
    assert node.plugins == []
    (node.directory / "10.conf").unlink()
    node.file.write_text(text("fallback"))
    assert node.plugins == []
    node.wait()
    assert node.plugins == ["fallback"]
    assert said(caplog) == ["configuration: a", "configuration: no plugins", "configuration: fallback"]


def test_a_file_that_is_gone_while_another_is_not_valid_counts_until_that_is_mended(node):
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").unlink()
    (node.directory / "20.conf").write_text(BROKEN)
    for _ in range(3):
        node.wait()
        assert node.plugins == ["a", "b"]
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    node.wait()
    assert node.plugins == ["b"]


def test_a_file_that_was_missed_before_another_became_invalid_has_a_second_when_that_is_mended(node):
    node.put("10.conf", "a")
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    (node.directory / "10.conf").unlink()
    assert node.plugins == ["a", "b"]
    (node.directory / "20.conf").write_text(BROKEN)
    node.wait()
    assert node.plugins == ["a", "b"]
    node.put("20.conf", "b")
    assert node.plugins == ["a", "b"]
    node.wait()
    assert node.plugins == ["b"]


def test_the_file_that_stands_in_has_its_second_too(node):
    node.file.write_text(text("a"))
    assert node.plugins == ["a"]
    node.file.unlink()
    assert node.plugins == ["a"]
    node.put("10.conf", "b")
    assert node.plugins == ["b"]


# Links


@pytest.mark.parametrize("middle", [False, True])
def test_a_directory_of_a_chain_that_is_put_right_or_wrong_is_seen(node, caplog, old, middle):
    """Its link may be given to anybody: nothing of the file itself changes with that."""
    (node.root / "user").mkdir()
    (node.root / "end").mkdir()
    (node.root / "end/10.conf").write_text(text("a"))
    if middle:
        node.directory.rmdir()
        (node.root / "user/cur").symlink_to("../end")
        node.directory.symlink_to("user/cur")
    else:
        (node.root / "user/cur").symlink_to("../end/10.conf")
        (node.directory / "10.conf").symlink_to("../user/cur")
    (node.root / "user").chmod(0o757)
    assert [node.plugins, node.plugins] == [[], []]
    (node.root / "user").chmod(0o755)
    assert node.plugins == ["a"]
    (node.root / "end/10.conf").write_text(text("b"))
    (node.root / "user").chmod(0o757)
    assert node.plugins == ["a"]
    (node.root / "user").chmod(0o755)
    assert node.plugins == ["b"]
    caplog.clear()
    (node.root / "user").chmod(0o757)  # alone: no file changes with it
    assert node.plugins == ["b"]
    (line,) = said(caplog, logging.ERROR)
    assert f"{node.root}/user:1:1: (document): is writable by others (mode 0757" in line


def test_a_link_in_the_middle_that_leads_elsewhere_is_seen(node, old):
    for name in ("one", "two"):
        (node.root / name).mkdir()
        (node.root / name / "10.conf").write_text(text(name))
    (node.root / "cur").symlink_to("one")
    (node.directory / "10.conf").symlink_to("../cur/10.conf")
    assert node.plugins == ["one"]
    (node.root / "new").symlink_to("two")
    (node.root / "new").rename(node.root / "cur")
    assert node.plugins == ["two"]


def test_a_chain_of_thousands_keeps_the_last_valid_one(node, caplog):
    node.put("10.conf", "a")
    assert node.plugins == ["a"]
    before = node.directory / "10.conf"
    for number in range(3000):
        link = node.root / f"link{number}"
        link.symlink_to(before)
        before = link
    (node.directory / "20.conf").symlink_to(before)
    assert node.plugins == ["a"]
    (line,) = said(caplog, logging.ERROR)
    assert f"{node.directory}/20.conf:1:1: (document): cannot be read: too many levels of symbolic links" in line


# What changes while it is read


@pytest.fixture
def meanwhile(monkeypatch):
    """Something that happens while the files are read: before the one by the given name is."""
    real = loading.read

    def arrange(name, happen, times=1):
        left = [times]

        def read(path, **options):
            if path.endswith(name) and left[0]:
                left[0] -= 1
                happen()
            return real(path, **options)

        monkeypatch.setattr(loading, "read", read)

    return arrange


def test_a_directory_that_is_exchanged_while_it_is_read_gives_no_mixture(node, meanwhile):
    for name in ("old", "new"):
        (node.root / name).mkdir()
        for file in ("10", "20"):
            (node.root / name / f"{file}.conf").write_text(text(f"{name}{file}"))
    node.directory.rmdir()
    node.directory.symlink_to("old")

    def exchange():
        (node.root / "link").symlink_to("new")
        (node.root / "link").rename(node.directory)

    meanwhile("20.conf", exchange)
    assert node.plugins == ["new10", "new20"]


def test_a_file_that_gets_another_name_while_it_is_read_is_not_lost(node, meanwhile):
    node.put("10.conf", "a")
    meanwhile("10.conf", lambda: (node.directory / "10.conf").rename(node.directory / "20.conf"))
    assert node.plugins == ["a"]


def test_files_that_change_one_after_the_other_are_read_as_they_are_in_the_end(node, meanwhile):
    node.put("10.conf", "a1")
    node.put("20.conf", "b1")

    def change():
        node.put("10.conf", "a2")
        node.put("20.conf", "b2")

    meanwhile("20.conf", change)
    assert node.plugins == ["a2", "b2"]


def test_a_fault_that_is_mended_while_the_files_are_read_is_not_said(node, meanwhile, caplog):
    (node.directory / "10.conf").write_text(BROKEN)
    node.put("20.conf", "b")
    meanwhile("20.conf", lambda: node.put("10.conf", "a"))
    assert node.plugins == ["a", "b"]
    assert said(caplog) == ["configuration: a, b"]


def test_files_that_never_rest_are_taken_as_they_were_read_last(node, meanwhile, reads, old):
    numbers = iter(range(1000))
    node.put("10.conf", "a")
    meanwhile("10.conf", lambda: node.put("20.conf", f"b{next(numbers)}"), times=module.ATTEMPTS)
    last = ["a", f"b{module.ATTEMPTS - 1}"]
    assert node.plugins == last
    assert len(reads) == module.ATTEMPTS
    assert [node.plugins, node.plugins] == [last, last]
    assert len(reads) == module.ATTEMPTS + 1


def test_of_a_thousand_changes_every_answer_is_one_whole_configuration(node):
    """Each version has as many plugins as it has a number, all with that number, in a file that is replaced."""
    done = threading.Event()
    node.put("10.conf", "v1-0")

    def edit():
        try:
            for version in range(1000):
                number = version % 7 + 1
                node.put("10.conf", *[f"v{number}-{each}" for each in range(number)])
        finally:
            done.set()

    thread = threading.Thread(target=edit)
    thread.start()
    answers = 0
    while not done.is_set():
        found = node.plugins
        number = len(found)
        assert found == [f"v{number}-{each}" for each in range(number)]
        assert number
        answers += 1
    thread.join()
    last = 999 % 7 + 1
    assert node.plugins == [f"v{last}-{each}" for each in range(last)]
    assert answers > 10


def test_threads_that_ask_at_once_all_get_an_answer(node):
    node.put("10.conf", "a")
    answers, threads = [], []
    for _ in range(8):
        threads.append(threading.Thread(target=lambda: answers.extend([node.plugins for _ in range(50)])))
        threads[-1].start()
    node.put("10.conf", "b")
    for thread in threads:
        thread.join()
    assert len(answers) == 400
    assert {tuple(each) for each in answers} <= {("a",), ("b",)}
    assert node.plugins == ["b"]
