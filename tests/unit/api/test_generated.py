"""The messages are NRI's, name for name and number for number, and what is checked in is what protoc makes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

import nri
from nri import api
from nri.api import adjustment_pb2, container_pb2, linux_pb2, optional_pb2, runtime_pb2
from nri.ttrpc import ttrpc_pb2

ROOT = os.path.dirname(os.path.dirname(nri.__file__))
FILES = [module.DESCRIPTOR for module in (adjustment_pb2, container_pb2, linux_pb2, optional_pb2, runtime_pb2)]
SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}

with open(os.path.join(os.path.dirname(__file__), "nri-api.json"), encoding="utf-8") as file:
    TABLE = json.load(file)

MESSAGES: dict[str, Descriptor] = {
    name: found for file in FILES for name, found in file.message_types_by_name.items()
}
ENUMS: dict[str, EnumDescriptor] = {name: found for file in FILES for name, found in file.enum_types_by_name.items()}
ENUMS |= {f"{name}.{enum.name}": enum for name, message in MESSAGES.items() for enum in message.enum_types}


def short(full_name: str) -> str:
    return full_name.removeprefix(TABLE["package"] + ".")


def of_one(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return short(field.message_type.full_name)
    if field.enum_type is not None:
        return short(field.enum_type.full_name)
    return SCALARS[field.type]


def kind(field: FieldDescriptor) -> str:
    """A field's type as the table spells it."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return f"map<{of_one(entry['key'])}, {of_one(entry['value'])}>"
    return ("repeated " if field.is_repeated else "") + of_one(field)


def test_there_are_these_messages_and_enums_and_no_others() -> None:
    assert sorted(MESSAGES) == sorted(TABLE["messages"])
    assert sorted(ENUMS) == sorted(TABLE["enums"])
    assert {file.package for file in FILES} == {TABLE["package"]}


@pytest.mark.parametrize("name", sorted(TABLE["messages"]))
def test_a_message_has_these_fields_and_no_others(name: str) -> None:
    assert [[field.number, field.name, kind(field)] for field in MESSAGES[name].fields] == TABLE["messages"][name]


@pytest.mark.parametrize("name", sorted(TABLE["enums"]))
def test_an_enum_has_these_values_and_no_others(name: str) -> None:
    assert {value.name: value.number for value in ENUMS[name].values} == TABLE["enums"][name]


def test_there_are_these_services_and_no_others() -> None:
    services = {name: service for file in FILES for name, service in file.services_by_name.items()}
    assert {
        name: {
            rpc.name: [short(rpc.input_type.full_name), short(rpc.output_type.full_name)] for rpc in service.methods
        }
        for name, service in services.items()
    } == TABLE["services"]


def test_api_has_all_of_them_under_their_plain_names() -> None:
    top = {*MESSAGES, *(name for name in ENUMS if "." not in name)}
    assert top | {"Adjustment", "Update", "convert", "events", "scoped"} == set(vars(api)["__all__"])
    assert {api.__dict__[name].DESCRIPTOR.full_name for name in top} == {f"{TABLE['package']}.{name}" for name in top}


def test_ttrpc_has_these_fields_and_no_others() -> None:
    assert {
        name: [[field.number, field.name, kind(field)] for field in message.fields]
        for name, message in ttrpc_pb2.DESCRIPTOR.message_types_by_name.items()
    } == {
        "Request": [
            [1, "service", "string"],
            [2, "method", "string"],
            [3, "payload", "bytes"],
            [4, "timeout_nano", "int64"],
            [5, "metadata", "repeated nri.ttrpc.KeyValue"],
        ],
        "Response": [[1, "status", "nri.ttrpc.Status"], [2, "payload", "bytes"]],
        "Status": [
            [1, "code", "int32"],
            [2, "message", "string"],
            [3, "details", "repeated google.protobuf.Any"],
        ],
        "KeyValue": [[1, "key", "string"], [2, "value", "string"]],
    }


def generated() -> Iterator[str]:
    for package in ("nri/api", "nri/ttrpc"):
        for name in os.listdir(os.path.join(ROOT, package)):
            if name.endswith(("_pb2.py", "_pb2.pyi")):
                yield f"{package}/{name}"


def test_what_is_checked_in_is_what_protoc_makes(tmp_path: Path) -> None:
    version = metadata.version("grpcio-tools")
    ran = subprocess.run(
        [sys.executable, os.path.join(ROOT, "tools", "protoc"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    made = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*_pb2.py*")}
    there = {}
    for path in generated():
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            there[path] = file.read()
    differ = sorted(path for path in made.keys() | there.keys() if made.get(path) != there.get(path))
    assert not differ, f"run tools/protoc (grpcio-tools is {version}; pyproject.toml's extra `protos` says which)"


def test_the_protobuf_that_is_asked_for_is_the_one_that_the_generated_code_demands() -> None:
    with open(os.path.join(ROOT, "nri", "api", "runtime_pb2.py"), encoding="utf-8") as file:
        [line] = [line for line in file if line.startswith("# Protobuf Python Version: ")]
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        assert f'"protobuf>={line.split()[-1]}"' in file.read()


def test_a_field_that_this_version_does_not_know_survives() -> None:
    known = api.PodSandbox(id="6efd").SerializeToString()
    unknown = bytes([0xFA, 0x3F, 3]) + b"new"  # field 1023, a string
    pod = api.PodSandbox.FromString(known + unknown)
    assert pod.id == "6efd"
    assert pod.SerializeToString() == known + unknown
    request = api.RunPodSandboxRequest(pod=pod)
    assert api.RunPodSandboxRequest.FromString(request.SerializeToString()).pod.SerializeToString() == known + unknown


def test_a_value_of_an_enum_that_this_version_does_not_know_survives() -> None:
    event = api.StateChangeEvent.FromString(bytes([0x08, 99]))
    assert event.event == 99
    assert event.SerializeToString() == bytes([0x08, 99])
