"""prometheus_client is used where there is no OpenSSL, too, as in the compiled nri."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CODE = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name in ("ssl", "_ssl"):
            raise ImportError(f"no {name} here")

sys.meta_path.insert(0, Without())
from nri.metrics import page
print(page.render(None).decode().splitlines()[-1], "ssl" in sys.modules)
"""


def test_the_text_format_needs_no_openssl() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("nri_v1bridge_up 0.0 False\n", "")
