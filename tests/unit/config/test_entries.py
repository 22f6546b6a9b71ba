"""The values that the keys of the host configuration may have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness import json_schemas
from nri.config import entries

VALIDATOR = json_schemas.validator("host-config")


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("aZ09._-/\n é\u0660²"), max_size=6) | st.sampled_from(["a" * 255, "a" * 256]))
def test_a_type_name_is_what_the_schema_says(name: str) -> None:
    document = {"version": "0.1", "plugins": [{"type": name}]}
    assert entries.is_type_name(name) == VALIDATOR.is_valid(document)
