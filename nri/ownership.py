"""Whose a file is: what we run, and what tells us to, must be such that only root and we ourselves can change it.

Who can write to a plugin, to its directory, or to the configuration is who runs us, as a rule root. What is judged at
a path: the thing itself, at the end of links; the directory that it is named in; where it is a link, the directory of
its end. The directories above these are not looked at.

For everything that reads or starts something on a host, and so outside of the wings. Nothing is imported that a hook
would have to wait for.
"""

from __future__ import annotations

import os

UNCHECKED = (
    "owners and modes of plugins and configuration are not checked; "
    "whoever can write to one of them decides what is run here"
)
"""Said wherever that is switched off."""


def judge(status: os.stat_result) -> str:
    """What is wrong with the owner and mode of a file or directory, and what would be right; "" for nothing.

    It must be root's or our effective user's, and nobody else may write to it: not all, sticky directory or not, and
    not a group but root's and our own.
    """
    user = os.geteuid()
    mode = status.st_mode & 0o7777
    by_group = bool(mode & 0o020)
    if mode & 0o002 or (by_group and status.st_gid not in (0, os.getegid())):
        what = "is writable by others"
    elif status.st_uid not in (0, user):
        what = "is another user's"
    else:
        return ""
    group = f", group {status.st_gid}" if by_group else ""
    whose = "root's" if user == 0 else f"root's or user {user}'s"
    right = f"expected it to be {whose}, and mode {mode & 0o755:04o}"
    return f"{what} (mode {mode:04o}, owner {status.st_uid}{group}); {right}"


def judge_path(path: str, status: os.stat_result) -> str:
    """The first thing that is wrong at ``path``, beginning with the path that it is wrong with; "" for nothing.

    :param status: of what ``path`` leads to.
    :raises OSError: when one of the directories can't be looked at.
    """
    if wrong := judge(status):
        return f"{path} {at_end(path)}{wrong}"
    for directory in directories(path):
        if wrong := judge(os.stat(directory)):
            return f"{directory} {wrong}"
    return ""


def directories(path: str) -> list[str]:
    """The directory that ``path`` is named in; where it is a link, that of its end, too."""
    named = [os.path.dirname(path) or "."]
    return [*named, os.path.dirname(os.path.realpath(path))] if os.path.islink(path) else named


def at_end(path: str) -> str:
    """For a link the beginning of what is said about its end; "" for anything else."""
    return f"is a link to {os.path.realpath(path)}, which " if os.path.islink(path) else ""
