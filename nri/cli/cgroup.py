"""``nri cgroup``: where the cgroup of a request's container is, for plugins in shell or C."""

from __future__ import annotations

import click

from nri.cgroups import CgroupError, Mounts
from nri.cli import options, output
from nri.skel import cgroup_of

CONTROLLERS = ("cpu", "cpuset", "memory", "io", "pids", "hugetlb")


@click.command()
@click.argument("request_file", metavar="REQUEST")
@click.option(
    "--controller", type=click.Choice(CONTROLLERS), help="Print the directory for this one alone."
)
@options.path(
    "--mountinfo", default="/proc/self/mountinfo", help="Mounts, which tell where the cgroups are."
)
@options.as_json
@options.plain_errors
def cgroup(request_file: str, controller: str | None, mountinfo: str, as_json: bool) -> None:
    """Print the directories of a container's cgroup.

    It is found in v1 and v2, with any driver. REQUEST is a JSON file with the request that a plugin gets; - for
    stdin. A controller that the node does not have is left out. The exit status is 1 if there is no cgroup; then
    nothing is printed.

    \b
    Examples:
      nri cgroup request.json
      dir=$(printf %s "$request" | nri cgroup - --controller memory)
    """
    cgroup_ = cgroup_of(options.read_request(request_file), mounts=Mounts.read(mountinfo))
    directories = {}
    for name in (controller,) if controller else CONTROLLERS:
        try:
            directories[name] = cgroup_.directory(name)
        except CgroupError:
            if name in (controller, "cpu"):  # the reason is the same for all
                raise
    if as_json:
        output.print_json(directories)
    elif controller:
        click.echo(directories[controller])
    else:
        output.print_table(("CONTROLLER", "DIRECTORY"), list(directories.items()))
