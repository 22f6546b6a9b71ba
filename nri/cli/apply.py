"""``nri apply``: replaces the host configuration as a whole, if the node's plugins accept it.

/etc/nri/resource.d      becomes a link to sets/NAME; one rename exchanges it
/etc/nri/sets/NAME/      a copy of the *.conf of the directory that was applied; the copy before it stays, too
/etc/nri/before/         what the node had in place of the link
/etc/nri/resource.d.refused   the faults of the last directory, if it was refused; `nri status` and doctor report it
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import ExitStack, suppress

import click

from nri import config, files
from nri.cli import options
from nri.config import refused
from nri.config.loading import read_set, read_settled, unread
from nri.config.site import Site
from nri.doctor.checking import check_host
from nri.errors import NRIError, escape, reason_of
from nri.node.in_use import InUse

UNCHANGED = "\nnothing has changed"


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@options.path(
    "--sets", default="", show_default=False, metavar="DIR", help="Directory of the copies."
)
@options.host
@options.plain_errors
def apply(host: Site, directory: str, sets: str) -> None:
    """Replace the host configuration, if the plugins accept it.

    The *.conf of DIR take effect all together. They are copied to /etc/nri/sets, and checked as `nri check`
    does it. If there is a fault, nothing changes, and `nri status` and `nri doctor` report it until a directory is
    accepted. Otherwise one rename exchanges /etc/nri/resource.d, which is a link from then on; a bridge uses the
    files from the next event on. A directory that the node has there is moved to /etc/nri/before.

    \b
    Examples:
      nri apply ./resource.d
      nri apply /etc/nri/before/resource.d
    """
    conf_dir = os.path.abspath(host.conf_dir)
    if os.path.exists(conf_dir) and not os.path.isdir(conf_dir):
        raise NRIError(
            f"{conf_dir} is no directory: expected that of the host configuration{UNCHANGED}"
        )
    sets = os.path.abspath(sets or os.path.join(os.path.dirname(conf_dir), "sets"))
    try:
        try:
            done = _apply(host, directory, conf_dir, sets)
            refused.clear(conf_dir)
        except OSError as error:
            path = error.filename2 or error.filename or sets
            raise NRIError(f"cannot be applied: {path}: {reason_of(error)}") from None
    except NRIError as error:
        with suppress(OSError):  # such as a full disk, which is the error
            refused.note(
                conf_dir, os.path.abspath(directory), str(error).removesuffix(UNCHANGED).split("\n")
            )
        raise
    for line in done:
        click.echo(escape(line))


def _apply(host: Site, directory: str, conf_dir: str, sets: str) -> list[str]:
    """Apply the files; return what was done."""
    os.makedirs(sets, mode=0o755, exist_ok=True)
    with ExitStack() as stack:
        lock = os.open(sets, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that no other `nri apply` removes what this one makes
        if _is_ours(conf_dir, sets):
            current = os.path.basename(os.path.realpath(conf_dir))
        else:
            current = ""
        new = tempfile.mkdtemp(dir=sets)  # its name follows from its content, below
        try:
            names = _copied(directory, new)
            if not names:
                raise NRIError(
                    f'{directory} has no *.conf; for no plugins, write one with "plugins": []'
                )
            notes, content = _check(host, new, directory)
            new = _named(new, sets, content)
            moved = _exchange(new, conf_dir, sets)
            InUse(host.replace(conf_dir=conf_dir, check_owner=True)).use(
                read_set(conf_dir, host.conf_file).documents
            )
            for note in [*[note for note, _ in unread(directory, is_standard=False)], *notes]:
                click.echo(escape(f"note: {note}"), err=True)
        except BaseException:
            if os.path.realpath(conf_dir) != os.path.realpath(new):
                shutil.rmtree(new)
            raise
        for name in os.listdir(sets):
            if name not in (os.path.basename(new), current):
                shutil.rmtree(os.path.join(sets, name), ignore_errors=True)
        return [*moved, f"now in use: {' '.join(names)}, hash {content}"]


def _named(new: str, sets: str, content: str) -> str:
    """Give a set its name, NUMBER-HASH, and return its path; the caller has the lock."""
    numbers = [int(name.partition("-")[0]) for name in os.listdir(sets) if re.match(r"\d+-", name)]
    path = os.path.join(sets, f"{max(numbers, default=0) + 1}-{content}")
    os.rename(new, path)
    return path


def _is_ours(conf_dir: str, sets: str) -> bool:
    return os.path.islink(conf_dir) and os.path.dirname(
        os.path.realpath(conf_dir)
    ) == os.path.realpath(sets)


def _copied(directory: str, new: str) -> list[str]:
    """Copy the files of a directory to an empty one, and have them on the disk; return their names.

    A mounted ConfigMap has a link ``..data``, which the kubelet exchanges; the names beside it follow later.

    :raises NRIError: the files change again and again, or cannot be a configuration's.
    """
    source = os.path.join(directory, "..data")
    if not os.path.isdir(source):
        source = directory
    found = read_settled(source, "", check_owner=False)
    if not read_set(source, "", check_owner=False).is_as(found):
        raise NRIError(
            f"{directory}: its files change each time that they are read, expected files that stay"
        )
    if found.faults:
        raise _refusal(str(config.ConfigError(found.faults)), source, directory)
    names = []
    for path, document in found.documents.items():
        name = os.path.basename(path)
        files.replace(os.path.join(new, name), document, _on_the_disk)
        names.append(name)
    os.chmod(new, 0o755)  # noqa: S103 - as any directory in /etc
    fd = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return names


def _on_the_disk(fd: int) -> None:
    os.fchmod(fd, 0o644)
    os.fsync(fd)


def _check(host: Site, new: str, directory: str) -> tuple[list[str], str]:
    """Return the notes of the plugins on the new configuration, and its hash.

    :raises NRIError: all its faults, in the files of the directory that it was copied from.
    """
    checked, faults = check_host(host.replace(conf_dir=new, conf_file=os.path.join(new, "none")))
    if faults:
        raise _refusal("\n".join(map(str, faults)), new, directory)
    notes = []
    plugins = []
    for entry in checked:
        plugins.append(entry.plugin)
        for note in entry.notes:
            notes.append(note.replace(f"{new}/", f"{directory}/"))

    return notes, config.ConfigList(plugins=plugins).content_hash()


def _refusal(faults: str, place: str, directory: str) -> NRIError:
    """Return the error about faults in the files of a place, which are those of the directory to be applied."""
    return NRIError(faults.replace(f"{place}/", f"{directory}/") + UNCHANGED)


def _exchange(new: str, conf_dir: str, sets: str) -> list[str]:
    """Make *conf_dir* a link to *new*; return what else was done, in lines."""
    above = os.path.dirname(conf_dir)
    part = os.path.join(sets, ".part")
    before = ""
    if os.path.lexists(conf_dir) and not _is_ours(conf_dir, sets):
        before = os.path.join(os.path.dirname(sets), "before", os.path.basename(conf_dir))
        if os.path.lexists(before):
            both = f"found {conf_dir}, which `nri apply` has not made, and an earlier one, {before}"
            raise NRIError(f"{both}; remove one of them")
        os.makedirs(os.path.dirname(before), mode=0o755, exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(part)
    os.symlink(os.path.relpath(os.path.realpath(new), os.path.realpath(above)), part)
    if not before:
        os.rename(part, conf_dir)
        return []
    _move(conf_dir, before)
    try:
        os.rename(part, conf_dir)
    except BaseException:
        _move_back(before, conf_dir)
        raise
    return [f"moved {conf_dir} to {before}"]


def _move(conf_dir: str, before: str) -> None:
    """Move what the node has at *conf_dir*; a link is copied, as a rename can take its place."""
    if not os.path.islink(conf_dir):
        os.rename(conf_dir, before)  # the hosts go on with the set in use
        return
    target = os.readlink(conf_dir)
    if not os.path.isabs(target):
        above = os.path.dirname(conf_dir)
        target = os.path.relpath(os.path.join(above, target), os.path.dirname(before))
    os.symlink(target, before)


def _move_back(before: str, conf_dir: str) -> None:
    if os.path.lexists(conf_dir):  # the link, which was copied
        os.unlink(before)
    else:
        os.rename(before, conf_dir)
