"""The built site in a browser: no key is broken in the middle, and what is copied can be run."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.node import ROOT

BROWSER = shutil.which("chromium")

PAGES = ("index", "docs/configuration", "docs/plugins", "docs/cpus", "docs/monitoring")

MEASURE = """<script>
function breaks(node) {
  // The letters and digits of a text that stand on another line than the one before them.
  const found = [];
  let top = null;
  for (let at = 0; at < node.data.length; at++) {
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    const box = range.getClientRects()[0];
    if (!box) continue;
    const isInWord = at > 0 && /[a-z0-9]/i.test(node.data[at - 1]) && /[a-z0-9]/i.test(node.data[at]);
    if (top !== null && box.top > top + 2 && isInWord) found.push(node.data);
    top = box.top;
  }
  return found;
}
window.addEventListener("load", () => setTimeout(() => {
  const broken = [];
  for (const code of document.querySelectorAll("article td code")) {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) broken.push(...breaks(walker.currentNode));
  }
  const copied = [...document.querySelectorAll("code[data-copy]")].map((code) => code.dataset.copy);
  const sessions = document.querySelectorAll(".highlight pre > code:has(.gp)").length;
  const page = document.documentElement;
  const measured = document.createElement("pre");
  measured.id = "measured";
  measured.textContent = JSON.stringify(
    {broken, copied, sessions, isTooWide: page.scrollWidth > window.innerWidth});
  document.body.append(measured);
}, 1000));
</script></body>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, with a script in each page that measures it."""
    built = subprocess.run(
        [sys.executable, ROOT / "tools/docs"], cwd=ROOT, capture_output=True, check=False
    )
    assert built.returncode == 0, built.stderr
    copy = tmp_path_factory.mktemp("site") / "site"
    shutil.copytree(ROOT / "build/site", copy)
    for page in PAGES:
        file = copy / f"{page}.html"
        file.write_text(file.read_text().replace("</body>", MEASURE))
    return copy


def measured(browser: str, file: Path, width: int) -> dict[str, Any]:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += ["--virtual-time-budget=5000", f"--window-size={width},2000", "--dump-dom"]
    done = subprocess.run(
        [browser, *options, f"--user-data-dir={file.parent / 'profile'}", file.as_uri()],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    value: dict[str, Any] = json.loads(html.unescape(found[1]))
    return value


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_pages_can_be_read_and_copied_from_in_a_browser(site: Path) -> None:
    browser = str(BROWSER)
    for width in (1280, 400):
        for page in PAGES:
            value = measured(browser, site / f"{page}.html", width)
            assert value["broken"] == [], f"{page} at {width} pixels"
            assert not value["isTooWide"], f"{page} at {width} pixels"
            assert len(value["copied"]) == value["sessions"]
            for commands in value["copied"]:
                assert not re.search(r"^[$#] ", commands, re.MULTILINE)
    readme = measured(browser, site / "index.html", 1280)["copied"]
    assert readme[0].startswith("make install && ")
    assert "all is well" not in "".join(readme)
