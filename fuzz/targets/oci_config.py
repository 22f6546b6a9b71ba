"""A container's OCI config.json: it becomes a Spec with its annotations and its cgroupsPath, or is refused with a
short DecodeError. A Spec can be sent to a plugin, which reads the same Spec.
"""

from __future__ import annotations

from nri.client import spec_from_oci
from nri.types import DecodeError, gojson
from nri.types.v1 import Request

JSON = True


def check(data: bytes) -> None:
    """Read the bytes as a config.json."""
    try:
        value = gojson.loads(data)
    except DecodeError:
        return
    if not isinstance(value, dict):
        return  # reading the file fails before that
    try:
        spec = spec_from_oci(value)
    except DecodeError as error:
        assert len(str(error)) < 600, "an error carries the document"
        return
    assert spec.annotations == {
        key: item or "" for key, item in (value.get("annotations") or {}).items()
    }
    linux = value.get("linux")
    assert spec.cgroups_path == ((linux or {}).get("cgroupsPath") or "")
    listed = (linux or {}).get("namespaces") or []
    assert set(spec.namespaces) == {(item or {}).get("type") or "" for item in listed}
    request = Request(state="create", id="a", spec=spec)
    # A value at the maximum depth of the configuration is no deeper in the request.
    assert Request.from_json(request.to_json()).spec == spec


SEEDS = (
    (
        b'{"ociVersion":"1.0.2","process":{"args":["redis"]},"annotations":{"qos.class":"ls"},"linux":{"cgroupsPath":'
        b'"/kubepods/podabc/redis","namespaces":[{"type":"pid"},{"type":"network","path":"/proc/1/ns/net"},null],'
        b'"resources":{"cpu":{"shares":1024}}}}'
    ),
    b'{"windows":{"resources":{"cpu":{"count":1}}},"annotations":null}',
    b'{"linux":null}',
    b'{"linux":{"namespaces":{"type":"pid"}}}',
    b'{"linux":{"namespaces":[{"type":1}]}}',
    b'{"linux":{"resources":[]}}',
    b'{"annotations":{"a":1}}',
)
