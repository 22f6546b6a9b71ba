"""The cost of a plugin conf as a class: one plugin from source, with the same four keys checked in three ways."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.plugin_start import REQUEST, WARM_UP, Case, document
from bench.report import Row

ROOT = str(Path(__file__).parent.parent)

_HEAD = f"""import sys
sys.path.insert(0, {ROOT!r})
from nri import skel
"""
_END = """

class Sized(skel.Plugin):
    type = "sized"
{members}
    def invoke(self, request{argument}):
{body}        return request.new_result(self.type, metadata={{"size": str({size})}})


skel.main(Sized())
"""
BY_HAND = (
    _HEAD
    + """

def check(conf):
    if not isinstance(conf, dict):
        raise ValueError(f"conf: found {conf!r}, expected an object")
    for key in conf:
        if key not in ("size", "level", "names", "verbose"):
            raise ValueError(f"conf: found the key {key!r}, expected one of size, level, names, verbose")
    size, level = conf.get("size"), conf.get("level", "low")
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 64:
        raise ValueError(f"conf.size: found {size!r}, expected an integer, 1 to 64")
    if level not in ("low", "high"):
        raise ValueError(f"conf.level: found {level!r}, expected one of low, high")
    names, verbose = conf.get("names", []), conf.get("verbose", False)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"conf.names: found {names!r}, expected an array of strings")
    if not isinstance(verbose, bool):
        raise ValueError(f"conf.verbose: found {verbose!r}, expected true or false")
    return {"size": size, "level": level, "names": names, "verbose": verbose}
"""
    + _END.format(members="", argument="", body="        conf = check(request.conf)\n", size='conf["size"]')
)
BY_TABLE = (
    _HEAD
    + """from nri.types.table import FLAG, Key, Table, array, number, text, words

CONF = Table(
    Key("size", number(1, 64, whole=True), required=True, description="how much"),
    Key("level", words("low", "high"), default="low", description="how well"),
    Key("names", array(text()), default=[], description="whose"),
    Key("verbose", FLAG, default=False, description="whether it says so"),
    notes=True,
    nulls=True,
)
"""
    + _END.format(members="", argument="", body="        conf = CONF.read(request.conf)\n", size='conf["size"]')
)
BY_CLASS = (
    _HEAD
    + """from nri.types import fields
from nri.types.conf import Conf
from nri.types.table import text


class SizedConf(Conf):
    size: int = fields.integer("how much", 1, 64)
    level: str = fields.choice("low", "high", description="how well", default="low")
    names: tuple = fields.array(text(), "whose", default=[])
    verbose: bool = fields.flag("whether it says so", default=False)
"""
    + _END.format(members="    conf_class = SizedConf\n", argument=", conf", body="", size="conf.size")
)


def measure(scratch: Path, *, runs: int) -> list[Row]:
    """Return the rows of the table."""
    request = document(REQUEST | {"conf": {"size": 4, "names": ["a"]}})
    python = os.path.realpath(sys.executable)
    cases = []
    for name, source in (("by hand", BY_HAND), ("by a table", BY_TABLE), ("by a class", BY_CLASS)):
        file = scratch / f"{name.replace(' ', '-')}.py"
        file.write_text(source)
        cases.append(Case(f"a plugin's start, its conf checked {name}", [python, "-S", str(file), "invoke"], request))
    for number in range(runs + WARM_UP):
        for case in cases:
            if b'"size":"4"' not in case.run():
                raise SystemExit(f"{case.name}: it should have read the conf")
            if number < WARM_UP:
                case.times.clear()
    hand, table, class_ = cases
    return [
        Row(name=hand.name, figure=hand.median, unit="ms"),
        Row(name=table.name, figure=table.median, unit="ms", reference=hand.median, of="by hand"),
        Row(name=class_.name, figure=class_.median, unit="ms", reference=hand.median, of="by hand"),
        Row(name="the same", figure=class_.median, unit="ms", reference=table.median, of="by a table", goal=1.05),
    ]
