"""``nri build``: from plugins' sources to one folder with their executables, which is tried before it is kept.

A plugin that would be dead or slow is refused with a :class:`nri.authoring.build_errors.BuildError`, before
PyInstaller runs where that is possible. Then the folder of results is as it was before.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.authoring import figures, needed_libc, plugin_source, trial
from nri.authoring.assembling import assemble, find_tools, left_out, link_elsewhere, link_sources
from nri.authoring.build_errors import BuildError
from nri.authoring.interpreter import search_path
from nri.authoring.rehearsal import Rehearsed
from nri.authoring.sample_conf import conf_beside
from nri.authoring.survey import Survey
from nri.authoring.workplace import Workplace
from nri.config.entries import TYPE_PATTERN, PluginEntry
from nri.config.plugin_conf import check_conf
from nri.types import gojson

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.types.v1 import Request

SEVERAL = "plugins"
"""The name of a folder with several plugins."""


class Options(NamedTuple):
    """What ``nri build`` is asked for."""

    paths: tuple[str, ...]
    output: str
    name: str | None = None  # of the folder of the result
    conf: Any = None
    request: Request | None = None
    check_libc: bool = False
    verbose: bool = False


class Built(NamedTuple):
    """A result in its place."""

    folder: str
    executables: list[str]
    figures: list[figures.Figures]
    libc: list[str]  # lines on which distributions it runs


class Candidate(NamedTuple):
    """A plugin that is ready to be built."""

    survey: Survey
    rehearsal: Rehearsed
    request: Request
    error: str  # in the answer of its source to the request


def build(options: Options, say: Callable[[str], None]) -> Built:
    """Build, try and keep.

    :param say: called with each note for the author.
    :raises BuildError: when something is refused.
    """
    tools = find_tools()
    scripts = [plugin_source.find(path) for path in options.paths]
    if options.name is not None and not re.fullmatch(TYPE_PATTERN, options.name):
        raise BuildError(f"--name: found {options.name!r}, expected a name such as 'batch'")
    with Workplace(options.output) as work:
        sources = work.path("sources")
        origin = link_sources(sources)
        if "site-packages" not in origin and options.verbose:
            say(f"nri is packed from {origin}")
        search = [sources, *search_path()]
        plugins = [_prepare(script, search, work, options, say) for script in scripts]
        types = [plugin.rehearsal.type for plugin in plugins]
        for number, each in enumerate(types):
            if each in types[:number]:
                raise BuildError(f"{scripts[number]}: its type {each!r} is that of another plugin of this build")
        name = options.name or (types[0] if len(types) == 1 else SEVERAL)
        target = work.target(name)
        pairs = [(plugin.survey, plugin.rehearsal) for plugin in plugins]
        folder, contents = assemble(work, name, pairs, sources, tools)
        for plugin in plugins:
            _check_contents(plugin, contents[plugin.rehearsal.type])
            _try(os.path.join(folder, plugin.rehearsal.type), plugin, options, say)
        found = _measure(folder, target, plugins)
        try:
            libc = _libc(folder, options, say) if options.check_libc else []
        except needed_libc.LibcError as error:
            raise BuildError(str(error)) from error
        work.install(folder, target)
        return Built(target, [os.path.join(target, each) for each in types], found, libc)


def _prepare(
    script: str, search: list[str], work: Workplace, options: Options, say: Callable[[str], None]
) -> Candidate:
    """Run a plugin from its source, and look at what it needs.

    :raises BuildError: when it would be dead or slow.
    """
    search = [os.path.dirname(script), *search]
    survey = Survey(script, search)
    link_elsewhere(search[1], {name: path for name, path in survey.elsewhere.items() if name != "nri"})
    for missing in survey.missing:
        where = f"{missing.path}:{missing.line}"
        remedy = "install it for this Python, or catch ImportError if the plugin works without it"
        raise BuildError(f"{where}: it imports {missing.module}, which is not there; {remedy}")
    scratch = work.make(f"rehearsal-{len(os.listdir(work.folder))}")
    rehearsal = Rehearsed(script, search, scratch)
    conf = options.conf
    if conf is None:
        conf, beside = conf_beside(script, rehearsal.type)
        if beside and options.verbose:
            say(f"{rehearsal.type}: the conf is that of {os.path.basename(beside)}")
    schema = _schema(rehearsal, conf)
    states = [str(state) for state in rehearsal.about.get("states") or ()]
    request = options.request or trial.default_request(rehearsal.type, states, conf)
    if options.request is not None and (options.conf is not None or request.conf is None):
        request = request.replace(conf=conf)
    error = trial.read_answer(rehearsal.type, *rehearsal.run("invoke", request.to_json()))
    if request.conf is None and isinstance(schema, dict) and schema.get("required"):
        say(f"{rehearsal.type}: its conf has required keys; neither --conf nor a *.conf beside it gives them")
    if costs := rehearsal.costs():
        named = ", ".join([f"{name} {cost:.1f} ms" for name, cost in costs.items()])
        say(f"hint: {rehearsal.type} imports at its start: {named}; import late what not every request needs")
    if options.verbose:
        without = left_out(survey, rehearsal)
        why = f" ({', '.join(sorted(survey.unreadable))} can't be read)" if survey.unreadable else ""
        say(f"{rehearsal.type}: left out: {', '.join(without) or 'nothing'}{why}")
    return Candidate(survey, rehearsal, request, error)


def _schema(rehearsal: Rehearsed, conf: Any) -> Any:
    """Return the plugin's schema.

    :raises BuildError: when it is no schema, or the conf is not what it wants.
    """
    output, lines = rehearsal.run("schema")
    try:
        schema = gojson.loads(output.stdout)
    except ValueError as error:
        said = f" ({lines[-1]})" if lines else ""
        raise BuildError(f"{rehearsal.type} schema: {output.ending or 'no JSON'}{said}") from error
    trial.check_schema(rehearsal.type, schema)
    if conf is not None:
        for fault in check_conf(PluginEntry(type=rehearsal.type, conf=conf), schema):
            raise BuildError(f"the conf of {rehearsal.type}: {fault.path.partition('].')[2]}: {fault.message}")
    return schema


def _check_contents(plugin: Candidate, contents: set[str]) -> None:
    """Refuse an executable that lacks a module that the plugin's own code names: a late import would fail."""
    survey, script = plugin.survey, plugin.rehearsal.script
    wanted = {"nri.skel", *survey.own}
    if lacking := sorted(name for name in wanted if name not in contents and not name.startswith("os.")):
        found = ", ".join(lacking)
        remedy = "install it with pip, not as an editable package, or move it beside the plugin"
        raise BuildError(f"{script}: the executable lacks what it imports: {found}; {remedy}")


def _try(executable: str, plugin: Candidate, options: Options, say: Callable[[str], None]) -> None:
    """Run an executable as a host would.

    :raises BuildError: when it does not do what its source does.
    """
    name = plugin.rehearsal.type
    stamp = trial.check_version(executable, name)
    if options.verbose:
        say(f"{name}: built with nri {stamp}")
    trial.check_answers(executable, name)
    trial.check_resident(executable, name)
    if error := trial.check_invoke(executable, name, plugin.request):
        if not plugin.error:
            remedy = "files beside the plugin are not packed: put their content into a module"
            raise BuildError(f"{name}: its source answers the request, the executable fails: {error}; {remedy}")
        advice = "" if options.request else "; --request FILE sends another request"
        say(f"{name}: it answered the request with an error: {gojson.shorten(error, 300)}{advice}")


def _libc(folder: str, options: Options, say: Callable[[str], None]) -> list[str]:
    if options.verbose:
        for name, version in sorted(needed_libc.needed_by_file(folder).items()):
            say(f"{name} needs glibc {version}")
    return needed_libc.describe(folder)


def _measure(folder: str, target: str, plugins: list[Candidate]) -> list[figures.Figures]:
    programs = []
    for plugin in plugins:
        name = plugin.rehearsal.type
        shown = os.path.relpath(os.path.join(target, name))
        executable = os.path.join(folder, name)
        programs.append(figures.Measured(shown, executable, [name, "invoke"], plugin.request.to_json(), folder))
    harmless = trial.default_request("none", [], None).to_json()
    return figures.measure([*programs, *figures.samples(harmless)])
