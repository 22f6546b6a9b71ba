"""A host that is killed leaves none of its plugins, and nothing else of it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.processes import is_running
from tests.support.waiting import wait_until

HOST = """
import os, signal, sys
from nri.process import watchdog
from nri.process.children import end_child
from nri.process.spawn import spawn
def then():
    os.replace("killed.part", "killed")
forgets = sys.argv[1] == "forgets"
watcher = watchdog.start(forgets=forgets, then=then)
os.chdir("/")
null = os.open("/dev/null", os.O_RDWR)
def plugin(text, out=null, **options):
    return spawn("/bin/sh", ["sh", "-c", text], (null, out, null), **options)
pids = plugin("sleep 1000 & echo $!; exec sleep 1000", 1), plugin("exec sleep 1000", is_plugin=False)
os.write(1, b"%d %d\\n" % pids)  # in one write, whatever Python buffers: the plugin writes there, too
ended = plugin("exit 0")
end_child(ended, 100)
from nri.process import children
print(sorted(children.listed(watcher._plugins)[0]).count(ended), flush=True)
sys.stdin.readline()
{end}
"""


def start(tmp_path: Path, end: str, *, forgets: bool = False) -> tuple[subprocess.Popen[str], list[int], int]:
    """Start a host; return it, a plugin, its child and another one, and whether an ended one is listed."""
    (tmp_path / "killed.part").touch()
    words = [sys.executable, "-c", HOST.replace("{end}", end), "forgets" if forgets else "keeps"]
    host = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert host.stdout is not None
    lines = sorted([host.stdout.readline().split() for _ in range(3)], key=len)
    plugin, other = map(int, lines.pop())
    ended, child = sorted(int(line[0]) for line in lines)
    return host, [plugin, child, other], ended


def test_killed_host_leaves_only_its_other_children(tmp_path: Path) -> None:
    host, (plugin, child, other), is_listed = start(tmp_path, "", forgets=True)
    assert not is_listed
    host.kill()
    host.communicate()
    try:
        assert wait_until(lambda: not is_running(plugin) and not is_running(child))
        assert wait_until((tmp_path / "killed").exists)  # in the host's first directory
        assert is_running(other)
        assert host.returncode == -signal.SIGKILL
    finally:
        subprocess.run(["kill", str(other)], check=True)


def test_sweep_kills_what_ended_plugins_have_left(tmp_path: Path) -> None:
    host, (plugin, child, other), is_listed = start(tmp_path, "watcher.sweep()")
    assert is_listed
    host.communicate("go on")
    subprocess.run(["kill", str(other)], check=True)
    assert not is_running(plugin)
    assert not is_running(child)
    assert not (tmp_path / "killed").exists()


STARTING = """
import os
from nri.process import children, watchdog
from nri.process.spawn import Pipes
watchdog.start()
def begin():
    actions = [(os.POSIX_SPAWN_DUP2, pipes.theirs[0], 0)]
    print(os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}, file_actions=actions, setsid=True), flush=True)
    os.kill(os.getpid(), 9)
with Pipes() as pipes:
    children.start(begin, stdin=pipes.theirs[0])
"""


def test_host_killed_while_it_starts_a_plugin_leaves_none() -> None:
    done = subprocess.run([sys.executable, "-c", STARTING], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert wait_until(lambda: not is_running(int(done.stdout)))
