"""Options that several commands share, and the reporting of errors."""

from __future__ import annotations

import functools
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from nri import trust
from nri.config.entries import DEFAULT_TIMEOUT, MAX_TIMEOUT
from nri.config.site import Site
from nri.errors import NRIError, escape, reason_of
from nri.places import DEFAULT_BIN_DIRS, DEFAULT_CONF_DIR, DEFAULT_CONF_FILE, DEFAULT_RECORD_DIR
from nri.types import DecodeError, gojson
from nri.types.v1 import MAX_REQUEST, STATES, Request

MAX_CONF = 64 * 1024
"""Bytes of a file with a plugin conf: as many as a file of the host configuration may have."""

type_state = click.Choice([str(state) for state in STATES])


class Number(click.FloatRange):
    """A number. click itself would accept NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """As for any parameter type of click."""
        number: float = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124 - true for NaN only
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class _PodName(click.ParamType[str]):
    """The namespace and the name of a pod."""

    name = "pod"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As for any parameter type of click."""
        if not re.fullmatch("[^/]+/[^/]+", value):
            self.fail(f"found {value[:253]!r}, expected NAMESPACE/NAME", param, ctx)
        return value


pod = functools.partial(click.option, "--pod", metavar="NAMESPACE/NAME", type=_PodName())


def _read_conf(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    """Return the plugin conf in an option's value: JSON, or the name of a file."""
    if value is None:
        return None
    where = "it"
    text = value.encode()
    if value.lstrip()[:1] not in ("{", "["):
        where = escape(value)
        try:
            with open(value, "rb") as file:
                text = file.read(MAX_CONF + 1)
        except (OSError, ValueError) as error:
            expected = "expected a JSON object, or a file with one"
            raise click.BadParameter(
                f"{where} cannot be read: {reason_of(error)}; {expected}", context, option
            ) from None
    if len(text) > MAX_CONF:
        raise click.BadParameter(f"{where} has more than {MAX_CONF} bytes", context, option)
    try:
        return gojson.loads(text)
    except DecodeError as error:
        raise click.BadParameter(f"{where} is not JSON: {error}", context, option) from None


conf = functools.partial(click.option, "--conf", callback=_read_conf, metavar="FILE|JSON")
_BIN_DIR_HELP = "Directory of plugins. Repeat for more; the first executable found is run."

# What cannot be read is for the command to report: the default may be root's alone, and the command do without it.
path = functools.partial(
    click.option, metavar="FILE", type=click.Path(readable=False), show_default=True
)
seconds = functools.partial(
    click.option, metavar="SECONDS", type=Number(0, MAX_TIMEOUT, min_open=True), show_default=True
)

timeout = seconds(
    "--timeout",
    default=DEFAULT_TIMEOUT,
    help="Time to answer for a plugin without a timeout of its own.",
)


def as_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-o json``, and ``--json`` for the same: the argument ``as_json``."""

    @click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Print text, for people, or JSON, for programs.",
    )
    @click.option("--json", "is_json", is_flag=True, help="The same as -o json.")
    @functools.wraps(command)
    def wrapped(*args: Any, form: str, is_json: bool, **kwargs: Any) -> Any:
        return command(*args, as_json=is_json or form == "json", **kwargs)

    return wrapped


_HOST = (
    path(
        "--conf-dir",
        default=DEFAULT_CONF_DIR,
        metavar="DIR",
        help="Directory of the host configuration (*.conf).",
    ),
    path(
        "--conf-file",
        default=DEFAULT_CONF_FILE,
        help="File that is read if the directory holds no *.conf.",
    ),
    path(
        "--record-dir",
        default=DEFAULT_RECORD_DIR,
        metavar="DIR",
        help="Directory of the hosts' record.",
    ),
    path(
        "--bin-dir",
        "bin_dirs",
        multiple=True,
        default=DEFAULT_BIN_DIRS,
        metavar="DIR",
        help=_BIN_DIR_HELP,
    ),
    click.option(
        "--no-check-owner",
        is_flag=True,
        help="For development: also use files that others can write to.",
    ),
)


def host(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the paths of configuration and plugins, and for the check of their owners: a ``Site``.

    Without that check there is a warning on stderr.
    """

    @functools.wraps(command)
    def wrapped(
        *,
        no_check_owner: bool,
        conf_dir: str,
        conf_file: str,
        record_dir: str,
        bin_dirs: tuple[str, ...],
        **others: Any,
    ) -> Any:
        if no_check_owner:
            click.echo(f"warning: {trust.UNCHECKED} (--no-check-owner)", err=True)
        site = Site(
            conf_dir=conf_dir,
            conf_file=conf_file,
            record_dir=record_dir,
            bin_dirs=bin_dirs,
            check_owner=not no_check_owner,
        )
        return command(host=site, **others)

    for option in reversed(_HOST):
        wrapped = option(wrapped)
    return wrapped


def end_cleanly() -> None:
    """Have the signals that end a command raise SystemExit, so that what is half-made is removed, as with Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Report an ``NRIError`` of the command on stderr, and exit with status 1."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except NRIError as error:
            for line in str(error).split("\n"):
                click.echo(escape(line), err=True)
            raise click.exceptions.Exit(1) from None
        except UnicodeEncodeError as error:
            raise click.UsageError(f"found {error.object[:128]!r}, expected UTF-8") from None

    return wrapped


def pairs(option: str, words: tuple[str, ...]) -> dict[str, str]:
    """Return the mapping of a repeated option whose words are KEY=VALUE."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise click.BadParameter(
                f"found {word!r}, expected KEY=VALUE", param_hint=f"'{option}'"
            )
        pairs[key] = value
    return pairs


def read_request(name: str) -> Request:
    """Return the request in a file; "-" for stdin.

    :raises DecodeError: it cannot be read, or is no request.
    """
    where = escape(name)
    try:
        if name != "-":
            with open(name, "rb") as file:
                document = file.read(MAX_REQUEST + 1)
        else:
            where = "stdin"
            document = b""
            if sys.stdin:  # None if the caller has closed it
                document = sys.stdin.buffer.read(MAX_REQUEST + 1)
        if len(document) > MAX_REQUEST:
            raise DecodeError(f"has more than {MAX_REQUEST} bytes, expected a request")
        return Request.from_json(document)
    except OSError as error:
        raise DecodeError(
            f"{where}: cannot be read: {error.strerror}; expected a request"
        ) from error
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from error
