"""A plugin loads little for a container that it leaves as it is: every pod start waits for that."""

import subprocess
import sys

import pytest

from nri.types.v1 import Request, Spec
from tests.support.kernel_pod import SOURCE

REPORT = "import atexit, sys; atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))"


@pytest.mark.parametrize("plugin", ["clearcfs", "qos", "device_injector", "ulimit_adjuster"])
def test_without_work_no_code_of_cgroups_is_loaded(plugin: str) -> None:
    request = Request(state="create", id="web", pid=1, spec=Spec(cgroups_path="/kubepods/web"))
    code = f"{REPORT}\nfrom nri.plugins.{plugin} import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, "invoke"],
        input=request.to_json(),
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        check=True,
    )
    loaded = done.stderr.decode().split()
    assert "nri.skel" in loaded
    assert [name for name in loaded if name.startswith("nri.cgroups")] == []
