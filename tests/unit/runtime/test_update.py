"""The options of `update` as resources of an OCI configuration."""

from typing import Any

import pytest

from nri.runtime.commandline import OPTIONS, RESOURCES, CommandLine
from nri.runtime.update import resources_of
from nri.types import DecodeError


def read(words: str) -> dict[str, Any]:
    return resources_of(CommandLine(["update", *words.split(), "web"]).options)


@pytest.mark.parametrize(
    ("words", "resources"),
    [
        ("", {}),
        ("--cpu-share 512 --cpu-quota -1", {"cpu": {"shares": 512, "quota": -1}}),
        ("--cpuset-cpus 0-1 --cpuset-mems=0", {"cpu": {"cpus": "0-1", "mems": "0"}}),
        ("--memory 512M --memory-swap -1", {"memory": {"limit": 512 << 20, "swap": -1}}),
        ("--memory-reservation 1.5GiB", {"memory": {"reservation": 3 << 29}}),
        ("--memory 100 --memory 200b", {"memory": {"limit": 200}}),
        ("--pids-limit 7 --blkio-weight 10", {"pids": {"limit": 7}, "blockIO": {"weight": 10}}),
        ("--l3-cache-schema L3:0=f --cpu-idle 1", {"cpu": {"idle": 1}}),
    ],
)
def test_options_become_resources(words: str, resources: dict[str, Any]) -> None:
    assert read(words) == resources


def test_every_option_has_a_place() -> None:
    assert all(read(f"--{name} 1") for name in RESOURCES)
    assert all(OPTIONS["update"][name] == (name, True) for name in RESOURCES)


@pytest.mark.parametrize(
    "words", ["--memory much", "--cpu-quota 5M", "--memory 1x", "--memory infG", "--pids-limit 1.5"]
)
def test_a_wrong_number_is_named(words: str) -> None:
    with pytest.raises(DecodeError, match=rf"{words.partition(' ')[0]}: found .*, expected a (whole )?number"):
        read(words)
