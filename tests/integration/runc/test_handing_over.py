"""What the real runtime gets of its caller, and the caller of the real runtime: everything, and nothing else."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runc.conftest import NriRunc
from tests.support.waiting import SOON, wait_until

HEAVY = (
    *(
        "click",
        "jsonschema",
        "yaml",
        "google",
        "json",
        "re",
        "subprocess",
        "logging",
        "typing",
        "asyncio",
        "signal",
    ),
    *(
        "enum",
        "dataclasses",
        "pathlib",
        "contextlib",
        "socket",
        "threading",
        "importlib.metadata",
        "traceback",
    ),
)
PRINT_MODULES = """
import os
end, run = os._exit, os.execve
def show(): print(sorted(sys.modules), file=sys.stderr, flush=True)
os._exit = lambda status: (show(), end(status))
os.execve = lambda *arguments: (show(), run(*arguments))
"""
CREATE = ("create", "--bundle", "bundle", "web")


def test_command_without_plugins_is_handed_over_in_its_process(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.script("print('out'); print('err', file=sys.stderr); sys.exit(7)")
    words = ["--root", "/r", "exec", "--tty", "web", "sh", "-c", "create é"]
    with subprocess.Popen(
        runtime.command(*words),
        env=runtime.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.communicate() == ("out\n", "err\n")
    (call,) = runtime.calls()
    assert process.returncode == 7
    assert call["pid"] == process.pid
    assert call["argv"] == [str(runtime.real), *words]
    assert call["environment"]["HELLO"] == "there"
    assert "_PYI" not in str(call["environment"])
    assert runtime.requests() == []


def ignored_here() -> int:
    """The mask of the signals that this process ignores."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (mask,) = [line.split()[1] for line in lines if line.startswith("SigIgn:")]
    return int(mask, 16)


@pytest.mark.parametrize("command", [("exec", "web", "true"), CREATE], ids=["exec", "create"])
def test_the_real_runtime_finds_the_surroundings_of_the_caller(
    runtime: NriRunc, command: tuple[str, ...]
) -> None:
    runtime.keep()
    runtime.exists(status="created")
    runtime.script("if words[0] == 'create': os.unlink(here + '/state')")
    read, write = os.pipe()

    def prepare() -> None:
        os.umask(0o027)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)

    done = runtime.run(*command, cwd=runtime.host.root, pass_fds=[write], preexec_fn=prepare)
    os.close(read)
    os.close(write)
    call = runtime.calls()[0]
    assert call["argv"][1:] == list(command), done.stderr
    assert call["cwd"] == str(runtime.host.root)
    assert call["umask"] == 0o027
    assert call["fds"] == [0, 1, 2, write]
    assert call["blocked"] == 0
    pythons = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)  # the script's own interpreter
    inherited = ignored_here() & ~pythons  # nohup ignores SIGHUP, for example
    assert call["ignored"] & ~pythons == inherited | 1 << (signal.SIGUSR1 - 1)
    assert call["core"] == resource.getrlimit(resource.RLIMIT_CORE)[1]


@pytest.mark.parametrize("words", [("state", "web"), CREATE, ("create", "--help")], ids=" ".join)
def test_nothing_heavy_is_imported(runtime: NriRunc, words: tuple[str, ...]) -> None:
    runtime.keep(["put", "cgroupsPath", "/moved"])
    runtime.exists()
    done = runtime.run(*words, code=PRINT_MODULES, cwd=runtime.host.root)
    loaded = set(eval(done.stderr.splitlines()[-1]))
    assert loaded.intersection(HEAVY) == set()
    if words[0] == "create" and "--help" not in words:
        assert runtime.states() == ["setup", "create"]


def test_without_options_next_to_nothing_is_imported(runtime: NriRunc) -> None:
    runtime.options.unlink()
    code = f"{PRINT_MODULES}\nimport nri.runc.real as real\nreal.DIRECTORIES = ({str(runtime.real.parent)!r},)"
    done = runtime.run("state", "web", code=code)
    loaded = {
        name.removeprefix("nri.")
        for name in eval(done.stderr.splitlines()[0])
        if name.startswith("nri.")
    }
    assert loaded == {
        "errors",
        "places",
        "runc",
        "runc.commandline",
        "runc.entry",
        "runc.made",
        "runc.real",
    }


def test_the_command_goes_to_the_runtime_by_its_name_behind_a_link(runtime: NriRunc) -> None:
    code = (
        f"import sys, nri.runc.real as real\nreal.DIRECTORIES = ({str(runtime.real.parent)!r},)\n"
        "import nri.runc.entry as entry\nentry.main.__defaults__ = ('/nonexistent',)\n"
        "sys.argv = {argv!r}\nfrom nri.cli.entry import main\nmain()"
    )
    runtime.script("print(words)")
    link = runtime.host.root / "runc"
    link.symlink_to("nri-real")
    done = subprocess.run(
        [sys.executable, "-S", "-c", code.format(argv=[str(link), "features"])],
        env=runtime.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['features']\n"


# Finding it


def test_nri_runc_never_finds_itself(runtime: NriRunc) -> None:
    runtime.set_options(runtime=sys.executable)
    done = runtime.run("state", "web")
    reason = f"runtime: no executable {sys.executable}, other than this program; expected runc"
    assert (done.returncode, reason in done.stderr) == (1, True)


def test_a_runtime_that_is_missing_is_named(runtime: NriRunc) -> None:
    runtime.set_options(runtime="nonesuch")
    done = runtime.run("--log-format", "json", "state", "web")
    assert done.returncode == 1
    assert "nri-real state: runtime: no executable nonesuch in /usr/local/sbin, " in done.stderr


def test_a_runtime_that_cannot_be_run_is_named(runtime: NriRunc) -> None:
    runtime.real.write_text("#!/nonexistent\n")
    for words in (("state", "web"), CREATE):
        runtime.keep()
        done = runtime.run(*words, cwd=runtime.host.root)
        assert done.returncode == 1
        assert f"runtime: {runtime.real} cannot be run: No such file or directory" in done.stderr


# The end


def test_the_exit_status_is_the_real_ones(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.script("sys.exit(255)")
    runtime.exists()
    assert runtime.run(*CREATE, cwd=runtime.host.root).returncode == 255
    assert runtime.states() == ["setup"]  # the id is another container's


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signal_that_ends_the_real_runtime_ends_nri_runc(
    runtime: NriRunc, number: signal.Signals
) -> None:
    runtime.keep()
    runtime.script(f"os.kill(os.getpid(), {int(number)})")
    assert (
        runtime.run("run", "--bundle", "bundle", "web", cwd=runtime.host.root).returncode == -number
    )


def test_signals_are_forwarded(runtime: NriRunc) -> None:
    numbers = [1, 2, 3, 10, 12, 14, 28, *range(34, 65), signal.SIGTERM]
    runtime.keep()
    runtime.script(
        f"for number in {[int(number) for number in numbers]}:\n"
        "    signal.signal(number, lambda n, _: os._exit(9) if n == 15 else os.write(1, b'%d\\n' % n))\n"
        "os.write(1, b'ready\\n')\n"  # print must not be interrupted by a handler that prints
        "while True: time.sleep(1)"
    )
    with subprocess.Popen(
        runtime.command("run", "--bundle", "bundle", "web"),
        env=runtime.environment, cwd=runtime.host.root, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in numbers[:-1]:
            process.send_signal(number)
            assert process.stdout.readline() == f"{number}\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 9


def test_session_and_group_stay_the_callers(runtime: NriRunc) -> None:
    runtime.keep()
    assert runtime.run("run", "--bundle", "bundle", "web", cwd=runtime.host.root).returncode == 0
    call = runtime.calls()[0]
    assert (call["session"], call["group"]) == (os.getsid(0), os.getpgid(0))


def test_a_session_that_it_leads_is_not_swept(runtime: NriRunc) -> None:
    """A container's process may be in it."""
    runtime.keep()
    runtime.exists()
    left = runtime.host.root / "left"
    fork = "pid = os.fork()\nif pid == 0:\n    os.closerange(0, 3)\n    time.sleep(60)\n"
    runtime.script(f"{fork}open({str(left)!r}, 'w').write(str(pid))")
    done = runtime.run(*CREATE, cwd=runtime.host.root, start_new_session=True)
    assert (done.returncode, runtime.states()) == (0, ["setup", "create"])
    pid = int(left.read_text())
    os.kill(pid, signal.SIGKILL)  # it is there
    assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_listen_pid_is_the_real_ones(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.exists()
    code = "import os\nos.environ['LISTEN_PID'] = str(os.getpid())\nos.environ['LISTEN_FDS'] = '1'"
    done = runtime.run(*CREATE, code=code, cwd=runtime.host.root)
    assert done.returncode == 0, done.stderr
    call = next(call for call in runtime.calls() if "create" in call["argv"])
    assert call["environment"]["LISTEN_PID"] == str(call["pid"])


def test_listen_pid_of_another_process_is_left_alone(runtime: NriRunc) -> None:
    runtime.keep()
    runtime.exists()
    environment: dict[str, Any] = {**runtime.environment, "LISTEN_PID": "1"}
    assert runtime.run(*CREATE, cwd=runtime.host.root, env=environment).returncode == 0
    assert all(call["environment"]["LISTEN_PID"] == "1" for call in runtime.calls())


# Options that are away


def test_options_that_are_away_are_still_in_use(runtime: NriRunc) -> None:
    """As where the directory of the file is exchanged during a create."""
    code = f"from nri import places\nplaces.DEFAULT_RECORD_DIR = {str(runtime.host.root / 'record')!r}\n"
    code += f"places.RUNTIME_OPTIONS_FILE = {str(runtime.options)!r}\n"
    runtime.keep()
    runtime.exists(status="created")
    root = runtime.host.root
    assert runtime.run(*CREATE, cwd=root, code=code).returncode == 0
    states = runtime.states()
    assert states == ["setup", "create"]
    assert runtime.run("delete", "web", cwd=root, code=code).returncode == 0
    (runtime.real.parent / "state").unlink()
    runtime.options.unlink()
    runtime.exists(status="created")
    away = runtime.run("--root", str(root), *CREATE, cwd=root, code=code)
    assert away.returncode == 0
    assert "runtime.json: is missing; still using the last valid options" in away.stderr
    assert runtime.states() == [*states, "delete", "setup", "create"]
