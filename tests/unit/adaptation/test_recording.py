"""Files of recorded events that cannot be read."""

from pathlib import Path

import pytest

from nri.adaptation import AdaptationError, recording


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"event": "\xff"}\n', ": is not UTF-8 at byte 11"),
        (b"\n" + b" " * (recording.MAX_LINE + 1), f":2: is longer than {recording.MAX_LINE} characters"),
        (None, ": can't be read: Is a directory"),
    ],
    ids=["not UTF-8", "too long", "a directory"],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "events"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(AdaptationError) as caught:
        recording.read(str(file))
    assert str(caught.value) == f"{file}{why}"
