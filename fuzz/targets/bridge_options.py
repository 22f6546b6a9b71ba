"""Bridge options: any text can be read without an exception. Each invalid key gives faults of one printable line,
and keeps its default; each valid key counts, whatever else the text has.
"""

from __future__ import annotations

from nri.types import DecodeError, gojson
from nri.types.conf import MAX_FAULTS
from nri.v1bridge import BridgeOptions

JSON = True
_DEFAULTS = BridgeOptions()


def check(data: bytes) -> None:
    """Read the bytes as a runtime passes them."""
    text = data.decode("utf-8", "replace")
    options, faults = BridgeOptions.of_text(text)
    for fault in faults:
        assert fault
        assert fault.isprintable()
        assert len(fault) < 400, "a fault carries the options"
    twice: list[str] = []
    try:
        document = gojson.loads(text, twice)
    except DecodeError:
        document = None
    if not isinstance(document, dict):
        assert options == _DEFAULTS
        assert len(faults) == (1 if text.strip() else 0)
        return
    once = {key: value for key, value in document.items() if key not in twice}
    alone = [
        BridgeOptions.of_text(gojson.dumps({key: value}).decode()) for key, value in once.items()
    ]
    faults = faults[: len(faults) - len(twice)]
    assert (
        sorted(faults) == sorted(fault for _, of_key in alone for fault in of_key)
        or len(faults) == MAX_FAULTS
    )
    expected = dict(vars(_DEFAULTS))
    for single, of_key in alone:
        assert not of_key or single == _DEFAULTS
        expected |= {
            key: value for key, value in vars(single).items() if value != getattr(_DEFAULTS, key)
        }
    assert vars(options) == expected


SEEDS = (
    (
        b'{"confDir":"/etc/nri/resource.d","confFile":"/etc/nri/conf.json","binDirs":["/opt/nri/bin"],"failurePolicy":'
        b'"ignore","pluginTimeout":2.5,"resident":true,"logFile":"/var/log/a","logLevel":"debug","x-why":1}'
    ),
    b'{"logLevl":"info","confDir":null,"binDirs":[],"pluginTimeout":1e400}',
    b'{"logLevel":["info"],"failurePolicy":{},"resident":"no","binDirs":["a"]}',
    b'{"\\u001b[2J":1,"confDir":"/\\u0000"}',
    b'{"logLevel":"info","logLevel":"trace"}',
    b"null",
    b" \n",
    b"{",
)
