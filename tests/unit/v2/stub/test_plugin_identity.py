"""A plugin's name and index, and where they come from."""

import pytest

from nri.v2.api.names import INDEX_VARIABLE, NAME_VARIABLE
from nri.v2.stub import Identity, IdentityError

LAUNCHED = {NAME_VARIABLE: "launched", INDEX_VARIABLE: "20"}


@pytest.mark.parametrize(
    ("environment", "executable", "given", "expected"),
    [
        (LAUNCHED, "/opt/nri/plugins/30-file", {"name": "given", "index": "40"}, "20-launched"),
        ({}, "/opt/nri/plugins/30-file", {"name": "given", "index": "40"}, "40-given"),
        ({NAME_VARIABLE: "", INDEX_VARIABLE: ""}, "30-file", {}, "30-file"),
        ({}, "plugin", {"name": "a.B_c+d-9", "index": "00"}, "00-a.B_c+d-9"),
        ({}, "30-with-more-dashes", {}, "30-with-more-dashes"),
    ],
)
def test_identity_comes_from_environment_options_or_name(
    environment: dict[str, str], executable: str, given: dict[str, str], expected: str
) -> None:
    assert str(Identity.find(environment, executable, **given)) == expected


@pytest.mark.parametrize(
    ("executable", "given", "missing"),
    [
        ("3-file", {}, "name and index"),
        ("30-dir/file", {}, "name and index"),
        ("plugin", {"name": "given"}, "index"),
        ("plugin", {"index": "40"}, "name"),
    ],
)
def test_missing_name_or_index_is_an_error(executable: str, given: dict[str, str], missing: str) -> None:
    with pytest.raises(IdentityError, match=f"^the plugin's {missing} is not known: .*; expected one like 10-name$"):
        Identity.find({}, executable, **given)


def test_name_or_index_that_no_runtime_accepts_is_refused() -> None:
    for name in ("a b", "a/b", "ä", "a\n", "\udcff"):
        with pytest.raises(
            IdentityError, match=r"^found the plugin name .*, expected letters, digits and _ \. \+ -$"
        ):
            Identity.find({}, "", name=name, index="10")
    for index in ("1", "100", "ab", "-1", "10\n", "١٢"):
        with pytest.raises(IdentityError, match=r"^found the plugin index .*, expected two digits, as in 10$"):
            Identity.find({}, "", name="name", index=index)
