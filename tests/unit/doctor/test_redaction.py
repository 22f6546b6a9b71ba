"""Secrets of configurations, of logs and of plugins are not part of what the doctor prints."""

from __future__ import annotations

import json

import pytest

from nri.doctor.redaction import without_secrets, without_values
from tests.support.scratch_node import CONFIG, MAINTAINED, PLUGINS, ScratchNode

SECRET = "hunter2"

CREDENTIALS = f"""
[plugins."io.containerd.grpc.v1.cri".registry.configs."example.org".auth]
  username = "{SECRET}"
  password = "{SECRET}"
[plugins."io.containerd.grpc.v1.cri".registry.headers]
  Authorization = ["Bearer {SECRET}"]
"""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f'says line="password={SECRET}"', 'says line="password=(not shown)"'),
        (f"metadata.api_key={SECRET} ms=3", "metadata.api_key=(not shown) ms=3"),
        (f'"clientSecret": "{SECRET} and more", "ms": 3', '"clientSecret": (not shown), "ms": 3'),
        (f"Authorization: Bearer {SECRET}", "Authorization: (not shown)"),
        (f"pull https://me:{SECRET}@example.org/x", "pull https://(not shown)@example.org/x"),
        (f"token {SECRET} was refused", "token (not shown) was refused"),
        ("info ok state=create pod=shop/web plugin=clearcfs ms=28.7", None),
        ('error failed plugin=slow error="killed: no result after 1.9 s"', None),
    ],
)
def test_what_looks_like_a_secret_in_a_line_of_a_log_is_not_shown(line: str, shown: str | None) -> None:
    assert without_secrets(line) == (line if shown is None else shown)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"found the string '{SECRET}', expected a number", "found a value (not shown), expected a number"),
        (f"found '{SECRET}, expected', expected it", "found a value (not shown), expected it"),
        (f"found {SECRET}", "found a value (not shown)"),
        (f"'{SECRET}' is not valid", "(not shown) is not valid"),
        ('unknown key, did you mean "classes"?', 'unknown key, did you mean "classes"?'),
        ("logLevel: unknown key 'x', did you mean \"y\"?", "logLevel: unknown key 'x', did you mean \"y\"?"),
        ("missing, expected a string", "missing, expected a string"),
    ],
)
def test_a_value_that_was_found_is_not_shown(message: str, shown: str) -> None:
    assert without_values(message) == shown


def test_credentials_of_other_programs_are_not_printed(node: ScratchNode) -> None:
    node.well()
    node.write(CONFIG, MAINTAINED + CREDENTIALS)
    node.write("/etc/docker/daemon.json", json.dumps({"http-proxy": f"http://me:{SECRET}@proxy"}))
    node.write("/proc/700/environ", f"TOKEN={SECRET}\0")
    node.program("/usr/bin/dockerd", "Docker version 28.2.2, build e6534b4")
    found = node.examine()
    assert found.is_well
    assert SECRET not in repr(found.findings)


@pytest.mark.parametrize(
    "text",
    [
        '{"version": "0.1", "plugins": [{"type": "clearcfs", "conf": {"token": "hunter2"}, "timeout": "hunter2"}]}',
        '{"version": "0.1", "plugins": [{"type": "clearcfs", "conf": {"password": "hunter2" "hunter2"}}]}',
        '{"version": "0.1", "plugins": [{"type": "clearcfs", "conf": {"password": hunter2}}]}',
        '{"version": "0.1", "plugins": "hunter2"}',
        '{"version": "hunter2", "plugins": []}',
    ],
)
def test_values_of_a_configuration_that_is_not_valid_are_not_printed(node: ScratchNode, text: str) -> None:
    node.well().write(PLUGINS, text)
    found = node.examine()
    assert not found.is_well
    assert SECRET not in repr(found.findings)


def test_secrets_in_the_log_are_not_printed(node: ScratchNode) -> None:
    node.well().write(
        "/var/log/syslog",
        f"Nov 22 09:00:00 node1 other: password={SECRET}\n"
        f'Nov 22 09:00:01 node1 nri-v1bridge: warning says plugin=x line="password={SECRET}"\n',
    )
    assert node.examine().log == [
        'Nov 22 09:00:01 node1 nri-v1bridge: warning says plugin=x line="password=(not shown)"'
    ]
