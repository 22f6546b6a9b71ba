"""The messages are NRI's, name for name and number for number, and the checked-in modules are what protoc makes."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

import nri
from nri.v2 import api
from nri.v2.api import adjustment_pb2, container_pb2, linux_pb2, optional_pb2, runtime_pb2

ROOT = Path(nri.__file__).parents[1]
FILES = [
    module.DESCRIPTOR
    for module in (adjustment_pb2, container_pb2, linux_pb2, optional_pb2, runtime_pb2)
]
SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}

TABLE = json.loads((Path(__file__).parent / "nri-api.json").read_text())

MESSAGES: dict[str, Descriptor] = {
    name: found for file in FILES for name, found in file.message_types_by_name.items()
}
ENUMS: dict[str, EnumDescriptor] = {
    name: found for file in FILES for name, found in file.enum_types_by_name.items()
}
ENUMS |= {
    f"{name}.{enum.name}": enum for name, message in MESSAGES.items() for enum in message.enum_types
}


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


def fields(message: Descriptor) -> list[list[Any]]:
    return [[field.number, field.name, kind(field)] for field in message.fields]


def test_messages_enums_and_services_are_those_of_the_table() -> None:
    services = {name: service for file in FILES for name, service in file.services_by_name.items()}
    assert {file.package for file in FILES} == {TABLE["package"]}
    assert {name: fields(message) for name, message in MESSAGES.items()} == TABLE["messages"]
    assert {
        name: {value.name: value.number for value in enum.values} for name, enum in ENUMS.items()
    } == TABLE["enums"]
    assert {
        name: {
            rpc.name: [short(rpc.input_type.full_name), short(rpc.output_type.full_name)]
            for rpc in service.methods
        }
        for name, service in services.items()
    } == TABLE["services"]


def test_api_has_all_of_them_under_their_plain_names() -> None:
    top = {*MESSAGES, *(name for name in ENUMS if "." not in name)}
    assert top | {"events"} == set(vars(api)["__all__"])
    assert {api.__dict__[name].DESCRIPTOR.full_name for name in top} == {
        f"{TABLE['package']}.{name}" for name in top
    }


def test_checked_in_modules_are_what_protoc_makes(tmp_path: Path) -> None:
    version = metadata.version("grpcio-tools")
    command = [sys.executable, str(ROOT / "tools/protoc"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    made = {
        str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*_pb2.py*")
    }
    packages = ("nri/kubernetes", "nri/v2/api", "nri/v2/ttrpc")
    paths = [path for package in packages for path in (ROOT / package).glob("*_pb2.py*")]
    there = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    differ = sorted(
        path for path in made.keys() | there.keys() if made.get(path) != there.get(path)
    )
    assert not differ, (
        f"run tools/protoc (grpcio-tools is {version}; pyproject.toml's extra `protos` says which)"
    )


def test_required_protobuf_matches_the_generated_code() -> None:
    lines = (ROOT / "nri/v2/api/runtime_pb2.py").read_text().splitlines()
    (version,) = [
        line.split()[-1] for line in lines if line.startswith("# Protobuf Python Version: ")
    ]
    assert f'"protobuf>={version}"' in (ROOT / "pyproject.toml").read_text()
