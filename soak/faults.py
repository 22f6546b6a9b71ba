"""The faults of the soak: the plugins of the chain, their faults, and the expected error of each.

A pod's annotation ``fault`` is ``PLUGIN/FAULT``. All other plugins of the chain answer correctly, as do all plugins
for a pod without this annotation.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

from harness.node import BINARIES, ROOT, BridgeNode

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT = 1.0
"""The timeout of a plugin's entry in seconds: enough for a good one on a busy machine, short for one that hangs."""

FAULTY, HANGING = 0.2, 0.05
"""The share of events with a fault, and among these the share whose plugin hangs."""

SCRIPT = """#!/bin/sh
request=$(cat)
good='{"plugin": "script", "version": "0.1", "error": ""}'
case "$request" in
*'"fault":"'"${0##*/}"/*)
    request=${request#*'"fault":"'"${0##*/}"/}
    case "${request%%'"'*}" in
    hang) exec sleep 1000 ;;
    deaf) trap '' HUP INT TERM; sleep 1000; sleep 1000 ;;
    crash) kill -SEGV $$ ;;
    status) echo "$good"; exit 3 ;;
    nothing) exit 0 ;;
    half) printf '{"plugin'; exit 0 ;;
    flood) exec head -c 3000000 /dev/zero ;;
    binary) printf '\\377\\376{}'; exit 0 ;;
    before) echo 'ready' ;;
    after) good="$good bye" ;;
    noise) head -c 200000 /dev/zero | tr '\\0' '\\n' >&2 ;;
    child) sleep 1000 & ;;
    daemon) setsid sleep 1000 & ;;
    esac ;;
esac
echo "$good"
"""

BUILT = """#!{python}
import sys
sys.path.insert(0, {root!r})
import os, signal, time
from nri import skel

def leave(prepare):
    if os.fork() == 0:
        prepare()
        time.sleep(1000)

FAULTS = {{
    "hang": lambda: time.sleep(1000),
    "deaf": lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), time.sleep(1000)),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "status": lambda: os._exit(3),
    "raise": lambda: 1 / 0,
    "child": lambda: leave(lambda: None),
    "daemon": lambda: leave(os.setsid),
}}

class Built(skel.Plugin):
    type = "built"

    def invoke(self, request):
        plugin, _, fault = request.spec.annotations.get("fault", "").partition("/")
        if plugin == "built" and fault == "flood":
            return request.new_result(self.type, metadata={{"x": "x" * 2_000_000}})
        if plugin == "built":
            FAULTS[fault]()
        return request.new_result(self.type)

if __name__ == "__main__":
    skel.main(Built())
"""

KILLED = f"killed: no result after {TIMEOUT:g} s"
NOTHING = "no valid result: it wrote nothing to stdout, expected a result; "
TOO_MUCH = "killed: it wrote more than 1048576 bytes"
OF_SCRIPT = {
    "hang": KILLED,
    "deaf": KILLED,
    "crash": NOTHING + "ended by signal 11",
    "status": "exit status 3, although it wrote a result without error",
    "nothing": NOTHING[:-2],
    "half": "no valid result: .*unterminated string",
    "flood": TOO_MUCH,
    "binary": "no valid result: ",
    "before": "no valid result: .*ready",
    "after": "no valid result: .*bye",
    "noise": "",
    "child": "",
    "daemon": "",
}
OF_BUILT = {
    "hang": KILLED,
    "deaf": KILLED,
    "stop": KILLED,
    "crash": NOTHING + "ended by signal 11",
    "status": NOTHING + "exit status 3",
    "raise": ".*division by zero",
    "flood": TOO_MUCH,
    "child": "",
    "daemon": "",
}
FAULTS = {"script": OF_SCRIPT, "built": OF_BUILT}
"""The error of each fault of each plugin, as a pattern; "" for no error."""


def choose(source: random.Random) -> tuple[str, str]:
    """Return a plugin and its fault; "" and "" for no fault."""
    if source.random() >= FAULTY:
        return "", ""
    hangs = source.random() < HANGING
    plugin = source.choice(sorted(FAULTS))
    return plugin, source.choice(
        [name for name, error in FAULTS[plugin].items() if (error == KILLED) == hangs]
    )


def node(scratch: Path, bridge: Path, **runtime: Any) -> BridgeNode:
    """Return a node below ``scratch`` with the plugins and their configuration; nothing is started.

    :param bridge: the bridge's executable.
    :param runtime: keyword arguments of ``nri.adaptation.Runtime``.
    """
    bin_dir = scratch / "bin"
    bin_dir.mkdir()
    (bin_dir / "clearcfs").symlink_to(BINARIES / "clearcfs")
    built = BUILT.format(python=sys.executable, root=str(ROOT))
    for name, text in {"script": SCRIPT, "built": built}.items():
        (bin_dir / name).write_text(text)
        (bin_dir / name).chmod(0o755)
    plugins: list[dict[str, Any]] = [{"type": name, "timeout": TIMEOUT} for name in FAULTS]
    made = BridgeNode(scratch, bridge, bin_dirs=[bin_dir], options={"logLevel": "error"}, **runtime)
    made.configure("10.conf", {"type": "clearcfs"}, *plugins)
    return made
