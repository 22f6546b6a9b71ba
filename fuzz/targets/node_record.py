"""The files of the hosts' record: whatever stands in them, a host begins. A row that is read has the same facts when
it is written and read again; the configuration in use is one whose files are whole, or none.
"""

from __future__ import annotations

import json
import os
import tempfile

from nri.config.site import Site
from nri.node.in_use import InUse
from nri.node.record import Facts
from nri.v1bridge.memory import Memory

JSON = True
DOCUMENT = b'{"version":"0.1","plugins":[{"type":"a"}]}'
HEAD = b'{"of":"/d\\u0000/f","since":1.5,"files":[["/d/a.conf",42,null]]}'


def check(data: bytes) -> None:
    """Have the bytes in the file of a container, and in that of the configuration in use."""
    with tempfile.TemporaryDirectory() as above:
        folder = f"{above}/record"  # what is in /tmp itself is not trusted
        in_use = InUse(Site(conf_dir="", conf_file="/nonexistent/f", record_dir=folder))
        in_use.use({"/d/a.conf": DOCUMENT})
        (name,) = os.listdir(folder)
        for path in (f"{folder}/{name}", f"{folder}/abc.json"):
            with open(path, "wb") as file:
                file.write(data)
        memory = Memory()
        memory.load(folder)
        for row in memory.rows.values():
            value = json.loads(json.dumps(row.facts.to_value()))
            faults: list[str] = []
            assert Facts.from_value(value, faults).to_value() == value
            assert not faults
        host = InUse(Site(conf_dir="", conf_file="/nonexistent/f", record_dir=folder), writes=False)
        host.look()
        assert all(
            document and data.endswith(b"".join(host.documents.values()))
            for document in host.documents.values()
        )


ROW = (
    b'{"old":false,"name":"default/web","life":"pid:1/2","created":true,"setup":["a"],"resources":7,'
    b'"had":[["a 1","{\\"type\\":\\"a\\",\\"conf\\":1}",["create"],null,"{}",false]],"lacks":[["a","setup",1,"y"]]}'
)
FACTS = (
    b'{"name":"default/web","life":"created:1","created":true,"seen":[1,2],"resources":{},"rewritten":true,"x":1,'
    b'"entries":[{"type":"a","hash":"1","document":"{\\"type\\":\\"a\\"}","result":"{}","x":1,"states":{"create":'
    b'{"outcome":"failed","since":1.5,"why":"no","binary":[1,2],"x":1},"setup":{"outcome":"done"}}}],'
    b'"without":{"outcome":"off","why":"off"},"made":{"bundle":["/b"],"spec":{}}}'
)
SEEDS = (
    ROW,
    FACTS,
    HEAD + b"\n" + DOCUMENT,
    HEAD + b"\n" + DOCUMENT[:-1],
    b'{"of":"\\u0000/nonexistent/f","since":1,"files":[["/d/a.conf",42,2.5]]}\n' + DOCUMENT,
    b"{}",
    b"[]",
    b"",
)
