"""The ways by which plugins run on this node, and what is wrong with them: none, or two for the same containers."""

from __future__ import annotations

from typing import NamedTuple

from nri.doctor.bridges import SERVICE, Bridges
from nri.doctor.containerd import FIRST_WITH_V2
from nri.doctor.finding import Findings
from nri.doctor.node import Node
from nri.doctor.other_engines import Configured, check_program, hooks
from nri.doctor.settings import PLUGIN_DIR, Settings
from nri.places import CONTAINERD_CONF_FILE, DEFAULT_CONF_DIR

SUBJECT = "what runs the plugins"


class Plugins(NamedTuple):
    """The plugins of the node, by the file that names them: the directory's, and those of ``conf.json``."""

    in_directory: tuple[str, ...]
    in_file: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Those that the bridge, the hooks and nri-runc run."""
        return self.in_directory or self.in_file


def findings(
    node: Node,
    all_settings: list[Settings],
    configured: list[Configured],
    bridges: Bridges,
    plugins: Plugins | None,
) -> Findings:
    """Return the findings of this subject.

    :param plugins: None if the configuration is not valid, so that it is not known what would run.
    """
    found = Findings(SUBJECT)
    serving = [settings for settings in all_settings if settings.serves]
    running: list[str] = []
    for settings in serving:
        running += _of_runtime(node, settings, bridges, plugins, found)
    for each in configured:
        hook_files = hooks(node, each.hook_dirs)
        if each.uses_ours:
            running.append(f"{each.engine}: nri-runc")
        if hook_files:
            running.append(f"{each.engine}: OCI hooks, {hook_files[0]}")
        if each.uses_ours and hook_files:
            _twice(each.engine, "nri-runc and OCI hooks", f"rm {' '.join(hook_files)}", found)
    for way in running:
        found.ok("way", way)
    for settings in serving:
        _two_bridges(settings, bridges, found)
    if plugins is None or running:
        return found
    if not plugins.all:
        found.note("nothing", "no plugin is configured, and nothing runs plugins")
    elif not serving and not configured:
        found.note("no-runtime", "plugins are configured, and no runtime is in use that could run them")
    elif not any(finding.level != "ok" for finding in found):
        found.fault(
            "no-way", f"plugins are configured ({_listed(plugins.all)}), and nothing runs them", _start(serving)
        )
    return found


def _of_runtime(
    node: Node, settings: Settings, bridges: Bridges, plugins: Plugins | None, found: Findings
) -> list[str]:
    """Return the ways of one runtime with NRI; add what is wrong with them."""
    name = settings.about
    ways: list[str] = []
    ours = [handler for handler in settings.handlers if handler.is_ours]
    for handler in ours:
        ways.append(f"{name}: nri-runc, for the handler {handler.name}")
        check_program(node, handler, settings.file, found)
    hook_files = hooks(node, settings.hook_dirs)
    if hook_files:
        ways.append(f"{name}: OCI hooks, {hook_files[0]}")
    if bridges.launched or bridges.is_outside:
        if is_served := _may_serve(settings, bridges, found):
            ways.append(f"{name}: the bridge, {is_served}")
            others = [*(["nri-runc"] if ours else []), *(["OCI hooks"] if hook_files else [])]
            mend = f"rm {' '.join(hook_files)}" if hook_files else f"name runc instead of nri-runc in {settings.file}"
            if others:
                _twice(name, f"the bridge and {' and '.join(others)}", mend, found)
    elif ours and hook_files:
        _twice(name, "nri-runc and OCI hooks", f"rm {' '.join(hook_files)}", found)
    elif settings.enabled is False and not ways:
        found.note("nri-off", f"{name}: NRI is off", settings.switch_on)
    if settings.engine.name == "containerd" and plugins is not None:
        ways += _conf_json(settings, plugins, bool(ways), found)
    return ways


def _may_serve(settings: Settings, bridges: Bridges, found: Findings) -> str:
    """Return how the bridge serves a runtime, "" if it can't; add what keeps it from that."""
    name, version = settings.about, settings.engine.version
    if settings.engine.name == "containerd" and version and version < FIRST_WITH_V2:
        mend = f"put the plugins into {CONTAINERD_CONF_FILE}, or use nri-runc: docs/running.md"
        found.fault("no-v2", f"{name} has no NRI v2, so the bridge can't serve it", mend)
        return ""
    if settings.enabled is False:
        found.fault("nri-off", f"{name}: NRI is off, so the bridge can't serve it", settings.switch_on)
        return ""
    launched = [path for path in bridges.launched if path.startswith(f"{settings.plugin_dir}/")]
    if launched:
        return f"launched as {launched[0]}"
    if not settings.accepts:
        text = f"{name}: it accepts no connections, so a bridge from outside can't serve it"
        found.fault("connections-off", text, settings.let_in)
        return ""
    return "from outside"


def _two_bridges(settings: Settings, bridges: Bridges, found: Findings) -> None:
    launched = [path for path in bridges.launched if path.startswith(f"{settings.plugin_dir}/")]
    if not launched or not bridges.is_outside or settings.enabled is False:
        return
    which = f"process {bridges.outside[0].pid}" if bridges.outside else SERVICE
    text = f"{settings.about} launches {launched[0]}, and {which} runs from outside: one of them is too many"
    mend = f"rm {launched[0]}, then {settings.restart}; or systemctl disable --now {SERVICE}"
    found.fault("two-bridges", text, mend)


def _conf_json(settings: Settings, plugins: Plugins, has_way: bool, found: Findings) -> list[str]:
    """Return the way by which containerd itself runs plugins; add those that run twice, and those that never run."""
    name, version, file = settings.about, settings.engine.version, CONTAINERD_CONF_FILE
    if not version:
        if plugins.in_file:
            found.unseen("conf-json", f"{file} names plugins; containerd 1.6 and 2.x run them by themselves")
        return []
    if version < FIRST_WITH_V2:
        if plugins.in_file:
            return [f"{name}: containerd itself, {file}"]
        if plugins.in_directory and not has_way:
            text = f"{name} does not read {DEFAULT_CONF_DIR}, so {_listed(plugins.in_directory)} never run"
            found.fault("directory-unread", text, f"put them into {file}, or use nri-runc: docs/running.md")
        return []
    if not plugins.in_file:
        return []
    both = [plugin for plugin in plugins.in_file if plugin in plugins.in_directory]
    if version >= (2,) and both and has_way:
        text = f"{_listed(both)} run twice for each pod: {name} runs those of {file} itself for the sandbox"
        found.fault("twice", text, f"rm {file}")
    elif version >= (2,):
        return [f"{name}: containerd itself, for the sandbox only, {file}"] if plugins.in_directory else []
    if plugins.in_directory:
        alone = [plugin for plugin in plugins.in_file if plugin not in plugins.in_directory]
        if alone and version < (2,):
            text = f"{_listed(alone)} in {file} never run, since {DEFAULT_CONF_DIR} has files"
            found.note("file-unread", text, f"move the entries to a file in {DEFAULT_CONF_DIR}, and rm {file}")
    return []


def _twice(name: str, which: str, mend: str, found: Findings) -> None:
    found.fault("twice", f"{name}: {which} run every plugin twice", mend)


def _start(serving: list[Settings]) -> str:
    if not serving:
        return "choose a way: docs/running.md"
    settings = serving[0]
    first = "" if settings.enabled is not False else f"{settings.switch_on}; "
    return f"{first}ln -s ../lib/v1bridge {PLUGIN_DIR}/10-v1bridge, then {settings.restart}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
