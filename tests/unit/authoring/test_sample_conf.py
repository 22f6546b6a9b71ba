"""The conf in the sample entry beside a plugin's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nri.authoring.sample_conf import conf_beside
from nri.config import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = '{"version": "0.1", "plugins": [{"type": "other"}, {"type": "a", "conf": {"n": %d}}]}'


def test_the_first_file_in_name_order_that_has_an_entry_counts(tmp_path: Path) -> None:
    (tmp_path / "20-a.conf").write_text(ENTRY % 2)
    (tmp_path / "10-a.conf").write_text(ENTRY % 1)
    (tmp_path / "05-a.conf.sample").write_text(ENTRY % 0)
    assert conf_beside(str(tmp_path / "a.py"), "a") == ({"n": 1}, str(tmp_path / "10-a.conf"))
    assert conf_beside(str(tmp_path / "a.py"), "b") == (None, "")


def test_somebody_elses_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "10.conf").write_text("server { listen 80; }")
    (tmp_path / "15.conf").mkdir()
    (tmp_path / "16.conf").symlink_to("nothing")
    (tmp_path / "20.conf").write_text(ENTRY % 2)
    assert conf_beside(str(tmp_path / "a.py"), "a")[0] == {"n": 2}


def test_a_file_that_names_the_plugin_and_is_wrong_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "10.conf").write_text('{"version": "0.1", "plugins": [{"type": "a", "cnf": 1}]}')
    with pytest.raises(ConfigError, match="cnf"):
        conf_beside(str(tmp_path / "a.py"), "a")
