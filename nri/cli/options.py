"""The options that several commands share, and how their errors reach the terminal."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import click

from nri import trust
from nri.client.chain import DEFAULT_TIMEOUT
from nri.client.lookup import DEFAULT_BIN_DIRS
from nri.config import DEFAULT_CONF_DIR, DEFAULT_CONF_FILE
from nri.config.entries import MAX_TIMEOUT
from nri.errors import NRIError, escape
from nri.types.v1 import STATES

type_state = click.Choice(STATES)


class Seconds(click.FloatRange):
    """A range of numbers. What is not a number (NaN) is neither below nor above it, and is refused here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As for any type of click."""
        seconds: float = super().convert(value, param, ctx)
        if seconds != seconds:  # noqa: PLR0124 - only NaN does
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


conf_dir = click.option(
    "--conf-dir",
    default=DEFAULT_CONF_DIR,
    show_default=True,
    metavar="DIR",
    type=click.Path(),
    help="Directory of the host configuration, *.conf in name order.",
)
conf_file = click.option(
    "--conf-file",
    default=DEFAULT_CONF_FILE,
    show_default=True,
    metavar="FILE",
    type=click.Path(),
    help="Read when the directory holds no *.conf.",
)
bin_dirs = click.option(
    "--bin-dir",
    "bin_dirs",
    multiple=True,
    default=DEFAULT_BIN_DIRS,
    show_default=True,
    metavar="DIR",
    type=click.Path(),
    help="Directory of plugins; repeat for more, the first one found is run.",
)
timeout = click.option(
    "--timeout",
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    type=Seconds(0, MAX_TIMEOUT, min_open=True),
    help="For a plugin whose entry in the configuration has none.",
)
no_check_owner = click.option(
    "--no-check-owner",
    is_flag=True,
    help="For development: also use what others can write to.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def host(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where the host's configuration and plugins are, and whose they may be."""

    @functools.wraps(command)
    def wrapped(*args: Any, no_check_owner: bool, **kwargs: Any) -> Any:
        return command(*args, check_owner=not no_check_owner, **kwargs)

    return conf_dir(conf_file(bin_dirs(no_check_owner(wrapped))))


def warn_unless(check_owner: bool) -> None:
    """Say on stderr that owners are not checked, where that is so."""
    if not check_owner:
        click.echo(f"warning: {trust.UNCHECKED} (--no-check-owner)", err=True)


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an error that is meant for a person into lines on stderr and exit status 1."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except NRIError as error:
            fail(str(error))

    return wrapped


def fail(message: str) -> NoReturn:
    """Say what is wrong and exit with status 1."""
    for line in message.split("\n"):
        click.echo(escape(line), err=True)
    raise click.exceptions.Exit(1)


def pairs(option: str, words: tuple[str, ...]) -> dict[str, str]:
    """The mapping that an option given several times, as KEY=VALUE, stands for."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"found {word!r}, expected KEY=VALUE", param_hint=f"'{option}'")
        pairs[key] = value
    return pairs
