"""The pages: links and names of files lead somewhere, and tables that repeat a table of the code agree with it."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

from harness.page_tables import TABLES, filled
from nri.adjust.fields import FIELDS, NEVER
from nri.testing.conformance import CHECKS
from nri.v2.api.events import METHODS
from nri.v2.api.runtimes import RELEASES
from tests.support import exposition, prometheus

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *ROOT.glob("*.md"),
    *DOCS.glob("**/*.md"),
    ROOT / "deploy/README.md",
    ROOT / "deploy/monitoring/README.md",
]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [
        re.sub(r"[^\w\- ]", "", title.lower())
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    return {title.replace(" ", "-") for title in titles}


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of a page's table with this header."""
    text = (DOCS / page).read_text()
    (body,) = re.findall(rf"^{re.escape(header)}\n\|[ |-]+\n((?:\|.*\n)*)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in body.splitlines()]


def test_files_of_the_repository_that_pages_name_exist() -> None:
    named = r"`((?:nri|tests|harness|tools|fuzz|conf|deploy|docs)/[\w./-]+)(?:::\w+)?`"
    lost = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in re.findall(named, page.read_text())
        if not (ROOT / path).exists() and "NAME" not in path
    ]
    assert lost == []


def test_every_public_name_is_there_and_documented() -> None:
    packages = re.findall(r"^\| `(nri[\w.]*)`", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert "nri.skel" in packages
    bare = []
    for package in packages:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and not hasattr(
                value, "DESCRIPTOR"
            ):
                bare += [] if inspect.getdoc(value) else [f"{package}.{name}"]
    assert bare == []


def test_checks_of_the_contract_name_sections_of_the_specification() -> None:
    assert {check.section for check in CHECKS.values()} - anchors(DOCS / "spec.md") == set()


def test_tables_of_keys_are_made_from_the_code() -> None:
    old = [page.name for page in DOCS.glob("*.md") if filled(page.read_text()) != page.read_text()]
    assert old == [], "run tools/schemas"
    shown = [
        name
        for page in DOCS.glob("*.md")
        for name in re.findall(r"<!-- keys: (.*) -->", page.read_text())
    ]
    assert sorted(shown) == sorted([*TABLES, "knobs"])


def test_adjusting_page_has_the_versions_that_apply_each_field() -> None:
    def shown(version: tuple[int, ...] | None) -> str:
        return "never" if version in (None, NEVER) else ".".join(map(str, version))

    page = (DOCS / "adjusting.md").read_text()
    fields = set()
    for nri, oci, *cells in re.findall(
        r"^\| ([\d.]+|never) \| ([\d.]+|never) \|(.*)\|(.*)\|$", page, re.MULTILINE
    ):
        plain, (whole, _, memory) = cells[0], cells[1].partition("of `memory`: ")
        for prefix, names in (
            ("", plain),
            ("linux.resources.", whole),
            ("linux.resources.memory.", memory),
        ):
            fields |= {
                (prefix + name, nri, oci)
                for name in re.findall(r"`([\w.]+)`", names)
                if name != "memory"
            }
    expected = {
        (field.name.partition("hooks.")[0] or "hooks", shown(field.nri), shown(field.oci))
        for field in FIELDS
    }
    assert fields == expected
    for runtime, listed in re.findall(r"^\| (containerd|cri-o) \| (.*) \|$", page, re.MULTILINE):
        releases = [tuple(item.split(": ")) for item in listed.split(", ")]
        assert releases == [(shown(first), shown(nri)) for first, nri in RELEASES[runtime]]


def test_commands_of_the_contributors_page_select_tests() -> None:
    page = (DOCS.parent / "CONTRIBUTING.md").read_text() + (DOCS / "changing-nri.md").read_text()
    commands = re.findall(r"^    python -m (pytest .*?)  ", page, re.MULTILINE) + re.findall(
        r"`(pytest [^`]*)`", page
    )
    assert len(commands) > 1
    for command in commands:
        words = [
            sys.executable,
            "-m",
            *command.split(),
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
        ]
        ran = subprocess.run(words, cwd=DOCS.parent, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{command}: {ran.stdout[-500:]}"


def test_files_that_an_addition_touches_exist() -> None:
    page = (DOCS / "changing-nri.md").read_text()
    paths = re.findall(r"`((?:nri|tests|docs|tools|harness|conf)/[\w./-]+|build\.spec)`", page)
    assert len(paths) > 30
    root = DOCS.parent
    missing = {path for path in paths if not (root / path).exists()}
    assert missing == {"nri/plugins/NAME.py", "nri/cli/NAME.py"}


def test_wire_page_has_the_events() -> None:
    page = (DOCS / "wire.md").read_text()
    found = re.findall(r"^\| (\d+) \| (\w+) \| (.*?) \|", page, re.MULTILINE)
    expected = []
    for method in METHODS:
        before = "`StateChange`" if method.state_change else "its own call"
        since = ", from 0.10 on" if method.since > (0, 2) else ""
        expected.append((str(int(method.event)), method.rpc, before + since))
    assert found == expected


def test_monitoring_page_has_the_metrics_and_the_alerts() -> None:
    shown = rows("monitoring.md", "| metric | type | labels | meaning |")
    assert shown[0][:3] == [f"`{exposition.UP}`", "gauge", ""]
    assert shown[1:] == [
        [
            f"`{exposition.name(metric)}`",
            metric.type,
            ", ".join(f"`{label}`" for label in exposition.labels(metric)),
            metric.documentation.removesuffix("."),
        ]
        for metric in exposition.metrics()
    ]
    alerts = rows("monitoring.md", "| alert | severity | for | what to do |")
    rules = prometheus.rules()
    assert [row[:3] for row in alerts] == [
        [f"`{r['alert']}`", r["labels"]["severity"], r["for"]] for r in rules
    ]
