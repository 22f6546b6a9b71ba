"""The environment that the real runtime gets."""

import pytest

from nri.runc.real import original

PACKED = {"LD_LIBRARY_PATH": "/opt/nri/lib/_internal", "_PYI_ARCHIVE_FILE": "/opt/nri/lib/nri"}


@pytest.mark.parametrize("own", [{}, {"LD_LIBRARY_PATH": "/usr/local/lib"}])
def test_the_runtime_gets_the_callers_environment(own: dict[str, str]) -> None:
    caller = {"PATH": "/bin"} | own
    kept = {f"{name}_ORIG": value for name, value in own.items()}  # as PyInstaller's launcher does
    assert original(caller | PACKED | kept, is_frozen=True) == caller
    assert original(caller, is_frozen=False) == caller
