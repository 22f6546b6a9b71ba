"""The bridge's log: a line for each event and plugin, that nobody can forge, and that never stands in the way."""

import errno
import json
import logging
import os
import re
import socket
import stat
import time

import pytest

from nri.client import PluginError, Step
from nri.config.entries import PluginEntry
from nri.errors import escape
from nri.types.v1 import Request, Result, Spec
from nri.v1bridge import BridgeOptions, logs

CONTAINER = "default/web/app"
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def nri_logger():
    """The logger of everything below ``nri``, put back as it was."""
    logger = logging.getLogger("nri")
    before = logger.handlers[:], logger.level, logger.propagate, logging.raiseExceptions
    yield logger
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.handlers, logger.propagate, logging.raiseExceptions = before[0], before[2], before[3]
    logger.setLevel(before[1])


class Log:
    """A log's file."""

    def __init__(self, path):
        self.path = path

    def set_up(self, **settings):
        logs.set_up(BridgeOptions(log_file=str(self.path), **settings), launched=True)

    @property
    def lines(self):
        return self.path.read_text(encoding="utf-8").splitlines()

    @property
    def objects(self):
        """Of JSON lines; no key twice."""

        def unique(pairs):
            assert len(dict(pairs)) == len(pairs)
            return dict(pairs)

        return [json.loads(line, object_pairs_hook=unique) for line in self.path.read_text("utf-8").split("\n")[:-1]]


@pytest.fixture
def log(tmp_path, nri_logger):
    return Log(tmp_path / "bridge.log")


def request(state="create", *, sandbox=False, id="1f92344f3c93e2381e18c2b9d9ffb698"):
    return Request(state=state, id=id, sandbox_id=id if sandbox else "6efd", spec=Spec())


def step(*, error="", metadata=None, plugin="konfine", seconds=0.01234):
    made = Step(PluginEntry(type=plugin), b"{}")
    made.seconds = seconds
    if error:
        made.error = PluginError(plugin, error)
    else:
        made.result = Result(plugin=plugin, metadata=metadata)
    return made


# What is in a line


def test_a_line_has_state_container_plugin_time_and_outcome(log):
    log.set_up()
    logs.step_line(CONTAINER, request(), step(metadata={"cpus": "1-3", "note": "a b"}))
    logs.step_line(CONTAINER, request("delete"), step(error="no CPU is left"))
    logs.step_line("default/web", request(sandbox=True), step())
    ok, failed, pod = [line.partition(" ") for line in log.lines]
    assert all(re.fullmatch(STAMP, stamp) for stamp, _, _ in (ok, failed, pod))
    assert ok[2] == (
        "info ok state=create container=default/web/app id=1f92344f3c93 plugin=konfine ms=12.3 "
        'metadata.cpus=1-3 metadata.note="a b"'
    )
    assert failed[2] == (
        "error failed state=delete container=default/web/app id=1f92344f3c93 plugin=konfine ms=12.3 "
        'error="no CPU is left"'
    )
    assert pod[2] == "info ok state=create pod=default/web id=1f92344f3c93 plugin=konfine ms=12.3"


def test_in_json_a_line_is_an_object(log):
    log.set_up(log_format="json")
    logs.step_line(CONTAINER, request(), step(metadata={"cpus": "1-3"}))
    logs.step_line("default/web", request("delete", sandbox=True), step(error="no"))
    logs.plugin_line(CONTAINER, request(), "konfine", "cpuset is busy")
    ok, failed, says = log.objects
    assert all(re.fullmatch(STAMP, value.pop("time")) for value in (ok, failed, says))
    assert ok == {
        "level": "info",
        "message": "ok",
        "state": "create",
        "container": CONTAINER,
        "id": "1f92344f3c93",
        "plugin": "konfine",
        "ms": 12.3,
        "metadata": {"cpus": "1-3"},
    }
    assert (failed["level"], failed["message"], failed["pod"], failed["error"]) == (
        "error",
        "failed",
        "default/web",
        "no",
    )
    assert (says["level"], says["message"], says["plugin"], says["line"]) == (
        "warning",
        "says",
        "konfine",
        "cpuset is busy",
    )


def test_a_line_of_a_plugin_is_told_apart_from_the_bridges_own(log):
    log.set_up()
    logs.plugin_line(CONTAINER, request(), "konfine", "ok state=create container=other/web/app plugin=clearcfs")
    (line,) = log.lines
    assert line.partition(" ")[2] == (
        "warning says state=create container=default/web/app plugin=konfine "
        'line="ok state=create container=other/web/app plugin=clearcfs"'
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["d", "i", "w", "e"]),
        ("info", ["i", "w", "e"]),
        ("warning", ["w", "e"]),
        ("error", ["e"]),
    ],
)
def test_what_is_below_the_level_is_left_out(log, level, expected):
    log.set_up(log_level=level)
    logger = logging.getLogger("nri.stub")
    for text, each in (("d", 10), ("i", 20), ("w", 30), ("e", 40)):
        logger.log(each, text)
    assert [line.split()[-1] for line in log.lines] == expected


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_stays_in_its_line(log, log_format):
    log.set_up(log_format=log_format)
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("nri.ttrpc").exception("it failed")
    (line,) = log.lines
    assert "it failed" in line
    assert "ValueError" in line


# What nobody can forge

EVIL = [
    "a\nb",
    "a\r\n2026-01-01T00:00:00.000Z info ok",
    "\x1b[2J\x1b]0;title\x07",
    "\x00",
    "\x85\u2028\u2029",
    "\u202eabc",
    "\udc80",
    'x" level="error',
    "x plugin=other error=none",
    "\\n",
    "",
    "=",
    "ü€😀",
]


def fields(line):
    """A line's fields, as whoever reads the format would: KEY=VALUE, either of them quoted as in JSON."""
    word = r'(?:"(?:[^"\\]|\\.)*"|[^\s"=]+)'
    found = re.findall(rf"(?<= )([\w.]*?{word}|[\w.]+)=({word})(?= |$)", line)
    return [(key, json.loads(value) if value.startswith('"') else value) for key, value in found]


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_no_text_leaves_its_field(log, evil):
    log.set_up()
    logs.step_line(f"default/{evil}/app", request(), step(metadata={evil: "1", "k": evil}))
    logs.step_line("default/web", request(sandbox=True, id=f"{evil}-id"), step(error=f"x{evil}"))
    logs.plugin_line(f"default/{evil}/app", request(), "konfine", evil)
    lines = log.path.read_text("utf-8").split("\n")
    assert lines.pop() == ""
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    ok, failed, says = map(fields, lines)
    assert [key for key, _ in ok[:5]] == ["state", "container", "id", "plugin", "ms"]
    assert [key.partition(".")[0] for key, _ in ok[5:]] == ["metadata", "metadata"]
    assert [key for key, _ in failed] == ["state", "pod", "id", "plugin", "ms", "error"]
    assert [key for key, _ in says] == ["state", "container", "plugin", "line"]
    assert ok[3] == failed[3] == says[2] == ("plugin", "konfine")


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_in_json_any_text_is_a_value(log, evil):
    log.set_up(log_format="json")
    logs.step_line(f"default/{evil}", request(), step(metadata={evil: evil}))
    logs.step_line(f"default/{evil}", request(), step(error=f"x{evil}"))
    logs.plugin_line(f"default/{evil}", request(), "konfine", evil)
    ok, failed, says = log.objects
    assert all(line.isascii() for line in log.lines)
    assert ok["container"] == failed["container"] == says["container"] == f"default/{evil}"
    assert (ok["metadata"], failed["error"], says["line"]) == ({evil: evil}, escape(f"x{evil}"), evil)


OWN = [
    "time",
    "level",
    "message",
    "state",
    "pod",
    "container",
    "id",
    "plugin",
    "ms",
    "error",
    "traceback",
    "metadata",
]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_metadata_replace_none_of_the_bridges_own_keys(log, log_format):
    log.set_up(log_format=log_format)
    logs.step_line(CONTAINER, request(), step(metadata=dict.fromkeys(OWN, "forged")))
    if log_format == "json":
        (value,) = log.objects
        assert value.pop("metadata") == dict.fromkeys(OWN, "forged")
        assert "forged" not in str(value)
        assert "error" not in value
    else:
        assert [key for key, value in fields(log.lines[0]) if value == "forged"] == [f"metadata.{key}" for key in OWN]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_plugin_that_says_megabytes_gets_a_short_line(log, log_format):
    log.set_up(log_format=log_format)
    huge = "\x01" * 1_000_000
    logs.step_line(CONTAINER, request(), step(metadata={huge: huge, "a": huge}))
    logs.step_line(CONTAINER, request(), step(metadata=dict.fromkeys(map(str, range(100_000)), "x")))
    logs.step_line(CONTAINER, request(), step(error=huge))
    logs.plugin_line(CONTAINER, request(), "konfine", huge)
    assert len(log.lines) == 4
    assert max(map(len, log.lines)) < 100_000
    assert "(4000000 characters)" in log.lines[2]  # each as \\x01


# Where it goes


def test_the_file_is_only_for_its_owner_and_is_appended_to(log):
    log.path.write_text("before\n")
    log.path.unlink()
    log.set_up()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    logging.getLogger("nri").info("one")
    log.set_up()
    logging.getLogger("nri").info("two")
    assert [line.split()[-1] for line in log.lines] == ["one", "two"]


def test_a_file_that_was_moved_away_is_made_anew(log):
    log.set_up()
    logger = logging.getLogger("nri")
    logger.info("one")
    log.path.rename(f"{log.path}.1")
    logger.info("two")
    assert [line.split()[-1] for line in log.lines] == ["two"]
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    log.path.unlink()
    logger.info("three")
    assert [line.split()[-1] for line in log.lines] == ["three"]
    with open(f"{log.path}.1", encoding="utf-8") as file:
        assert file.read().endswith(" info one\n")


def test_what_cannot_be_made_anew_goes_on_in_the_old_file(tmp_path, nri_logger):
    (tmp_path / "log").mkdir()
    log = Log(tmp_path / "log/bridge.log")
    log.set_up()
    nri_logger.info("one")
    (tmp_path / "log").rename(tmp_path / "old")
    nri_logger.info("two")
    (tmp_path / "log").write_text("no directory")
    nri_logger.info("three")
    assert [line.split()[-1] for line in Log(tmp_path / "old/bridge.log").lines] == ["one", "two", "three"]
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    nri_logger.info("four")
    assert [line.split()[-1] for line in log.lines] == ["four"]


@pytest.mark.parametrize("path", ["{}/none/bridge.log", "{}", "{}/fifo", "{}/" + "x" * 300, "{}/file/x"])
def test_a_file_that_cannot_be_written_is_said_on_stderr_and_so_is_the_rest(tmp_path, nri_logger, capsys, path):
    os.mkfifo(tmp_path / "fifo")  # that nobody reads
    (tmp_path / "file").write_text("")
    logs.set_up(BridgeOptions(log_file=path.format(tmp_path)), launched=False)
    nri_logger.info("more")
    first, second = capsys.readouterr().err.splitlines()
    assert f" error the log file {path.format(tmp_path)} cannot be written: " in first
    assert second.endswith(" info more")


def test_a_full_disk_raises_nothing_and_is_said_once(nri_logger, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "none"))
    for _ in range(2):
        logs.set_up(BridgeOptions(log_file="/dev/full"), launched=True)
        for _ in range(100):
            nri_logger.error("x" * 1000)
            logs.step_line(CONTAINER, request(), step(metadata={"a": "b"}))
    logs.set_up(BridgeOptions(), launched=False)
    out, said = capsys.readouterr()
    what = "error the log file /dev/full cannot be written, lines are lost: No space left on device"
    assert out == ""
    assert re.fullmatch(rf"({STAMP} {what}\n){{2}}", said)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EAGAIN], ids=errno.errorcode.get)
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_lines_that_a_file_did_not_take_are_counted_in_it(log, monkeypatch, capsys, number, log_format):
    monkeypatch.setattr(logs, "SYSLOG", str(log.path) + ".none")
    log.set_up(log_format=log_format)
    logger = logging.getLogger("nri")

    def fail(fd, data):
        raise OSError(number, os.strerror(number))

    logger.info("one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        for _ in range(3):
            logger.info("lost")
    logger.info("two")
    logger.info("three")
    found = [value["message"] for value in log.objects] if log_format == "json" else log.lines
    ends = ["one", f"3 lines before this one are lost: {os.strerror(number)}", "two", "three"]
    assert len(found) == 4
    assert all(line.endswith(end) for line, end in zip(found, ends, strict=True))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_disk_that_is_full_for_a_while_is_said_in_syslog_too(log, monkeypatch, tmp_path):
    monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / "syslog"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.settimeout(30)
        syslog.bind(logs.SYSLOG)
        log.set_up()
        monkeypatch.setattr(os, "write", lambda fd, data: 0)
        logging.getLogger("nri").info("lost")
        monkeypatch.undo()
        said = syslog.recv(4096).decode()
    assert said.endswith(f" the log file {log.path} cannot be written, lines are lost: No space left on device")


def test_a_line_that_was_cut_short_by_a_full_disk_does_not_run_into_the_next(log, monkeypatch):
    log.set_up()
    logger = logging.getLogger("nri")
    real = os.write
    monkeypatch.setattr(logs.os, "write", lambda fd, data: real(fd, data[:30]))
    logger.info("one that is long enough")
    monkeypatch.undo()
    logger.info("two")
    logger.info("three")
    one, lost, two, three = log.lines
    assert len(one) == 30
    assert lost.endswith("error 1 lines before this one are lost: No space left on device")
    assert two.endswith("info two")
    assert three.endswith("info three")


def test_a_message_that_cannot_be_formatted_is_nobodys_trouble(log, capsys):
    log.set_up()
    logging.getLogger("nri").info("%d plugins", "no")
    logging.getLogger("nri").info("next")
    assert [line.split()[-1] for line in log.lines] == ["next"]
    assert capsys.readouterr() == ("", "")


def test_the_roots_handlers_see_nothing(log, caplog):
    log.set_up()
    logging.getLogger("nri.v1bridge").error("x")
    assert caplog.records == []


def test_setting_up_again_closes_what_there_was(log):
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        log.set_up(log_format=("text", "json")[number % 2])
    assert len(logging.getLogger("nri").handlers) == 1
    assert len(os.listdir("/proc/self/fd")) == before + 1


# Syslog


@pytest.fixture
def syslog(tmp_path, monkeypatch, nri_logger):
    """The datagram socket that stands for /dev/log."""
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("log")
        sock.settimeout(10)
        monkeypatch.setattr(logs, "SYSLOG", "log")
        yield sock
        logs.set_up(BridgeOptions(), launched=False)


def test_a_bridge_that_a_runtime_launched_logs_to_syslog(syslog, nri_logger, capsys):
    logs.set_up(BridgeOptions(log_level="debug"), launched=True)
    for level, priority in ((10, 31), (20, 30), (30, 28), (40, 27), (50, 26)):
        nri_logger.log(level, "hello\nworld")
        name = logging.getLevelName(level).lower()
        assert syslog.recv(9999).decode() == rf"<{priority}>nri-v1bridge[{os.getpid()}]: {name} hello\nworld"
    assert capsys.readouterr() == ("", "")


def test_syslog_gets_json_where_that_is_the_format(syslog, nri_logger):
    logs.set_up(BridgeOptions(log_format="json"), launched=True)
    logs.step_line(CONTAINER, request(), step(metadata={"k": "\udc80ü"}))
    head, _, value = syslog.recv(9999).decode().partition(": ")
    assert head == f"<30>nri-v1bridge[{os.getpid()}]"
    assert json.loads(value)["metadata"] == {"k": "\udc80ü"}


def test_a_plugin_that_says_much_still_gets_into_a_datagram(syslog, nri_logger):
    logs.set_up(BridgeOptions(), launched=True)
    logs.step_line(CONTAINER, request(), step(error="\x01" * 1_000_000))
    logs.step_line(CONTAINER, request(), step(metadata={f"{n:0300}": "\x01" * 999 for n in range(99)}))
    assert b"error failed state=create" in syslog.recv(999_999)
    assert b"info ok state=create" in syslog.recv(999_999)


def test_started_by_hand_it_logs_to_stderr_also_where_there_is_syslog(syslog, nri_logger, capsys):
    logs.set_up(BridgeOptions(), launched=False)
    nri_logger.info("hello")
    assert re.fullmatch(rf"{STAMP} info hello\n", capsys.readouterr().err)


def test_a_log_file_goes_before_syslog_and_one_that_cannot_be_written_is_said_there(syslog, tmp_path, nri_logger):
    logs.set_up(BridgeOptions(log_file="/nowhere/bridge.log"), launched=True)
    assert b"error the log file /nowhere/bridge.log cannot be written: No such file" in syslog.recv(9999)
    logs.set_up(BridgeOptions(log_file=str(tmp_path / "bridge.log")), launched=True)
    nri_logger.info("hello")
    assert Log(tmp_path / "bridge.log").lines[0].endswith(" info hello")


def test_where_there_is_no_syslog_a_launched_one_logs_to_stderr(tmp_path, monkeypatch, nri_logger, capsys):
    for path in ("none", "file", "dead"):
        monkeypatch.setattr(logs, "SYSLOG", str(tmp_path / path))
        (tmp_path / "file").write_text("")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            if path == "dead":
                sock.bind(logs.SYSLOG)
        logs.set_up(BridgeOptions(), launched=True)
        nri_logger.info("to %s", path)
        assert capsys.readouterr().err.endswith(f" info to {path}\n")


def test_a_syslog_that_takes_nothing_is_not_waited_for(syslog, nri_logger):
    logs.set_up(BridgeOptions(), launched=True)
    slowest = 0.0
    for _ in range(2000):  # more than its queue holds
        started = time.monotonic()
        nri_logger.info("x")
        slowest = max(slowest, time.monotonic() - started)
    assert slowest < 5  # a thousandth of it is expected; for ever is what it would be
    syslog.setblocking(False)
    taken = 0
    with pytest.raises(BlockingIOError):
        while syslog.recv(9999):
            taken += 1
    assert 0 < taken < 2000


def test_after_a_pause_syslog_gets_lines_again(syslog, nri_logger, monkeypatch):
    monkeypatch.setattr(logs, "BACKOFF", 0.0)
    logs.set_up(BridgeOptions(), launched=True)
    syslog.setblocking(False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, pytest.raises(BlockingIOError):
        other.setblocking(False)
        while other.sendto(b"x", "log"):
            pass
    nri_logger.info("lost")
    with pytest.raises(BlockingIOError):
        while syslog.recv(9999):
            pass
    nri_logger.info("again")
    assert syslog.recv(9999).endswith(b"info again")


def test_a_syslog_that_was_restarted_is_found_again(syslog, nri_logger, monkeypatch):
    monkeypatch.setattr(logs, "BACKOFF", 0.0)
    logs.set_up(BridgeOptions(), launched=True)
    nri_logger.info("one")
    syslog.close()
    nri_logger.info("lost")
    os.unlink("log")
    nri_logger.info("lost too")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as new:
        new.bind("log")
        new.settimeout(10)
        nri_logger.info("two")
        assert new.recv(9999).endswith(b"info two")
