"""Entry point of the ``nri`` command.

``nri hook`` runs at every container's start, and importing click would take most of its time. So a valid command line
of the hook goes straight to ``nri.hook``. So does every call as ``nri-runc`` (or ``nri-crun``, and so on) to
``nri.runc``. Everything else goes to click.
"""

from __future__ import annotations

import io
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command in ``sys.argv``, and exit."""
    started = time.monotonic()
    if path := _runtime_path(sys.argv[0]):
        _be_runtime([path, *sys.argv[1:]])
    if sys.argv[1:2] == ["hook"]:
        _collect_no_garbage()
        from nri import hook

        arguments = hook.parse(sys.argv[2:])
        if arguments is not None:
            # All output is written; the interpreter's shutdown would take some more milliseconds.
            os._exit(hook.main(arguments, started))
    # A probe is run every few seconds.
    if sys.argv[1:2] == ["status"]:
        from nri.status import judging

        code = judging.run(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    from nri.cli.commands import nri
    from nri.errors import escape, reason_of

    for stream in (sys.stdout, sys.stderr):
        # Its encoding may lack characters of a plugin's text.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        nri(prog_name="nri")
    except OSError as error:  # of stdout: the commands report those of their files
        where = f"{error.filename}: " if error.filename else ""
        print(escape(f"nri: {where}{reason_of(error)}"), file=sys.stderr, flush=True)
        os._exit(1)  # the interpreter would write the rest again, and fail


def _runtime_path(path: str) -> str:
    """Return the path of this program as ``nri-runc``, also behind a link such as ``runc``; "" for another name."""
    for _ in range(40):  # links
        if os.path.basename(path).startswith("nri-"):
            return path
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            break
    return ""


def _collect_no_garbage() -> None:
    """Switch the garbage collector off: it costs a short process time, and finds next to nothing."""
    import gc

    gc.disable()


def _be_runtime(argv: list[str]) -> NoReturn:
    _collect_no_garbage()
    from nri.runc import entry

    entry.end(entry.main(argv))


if __name__ == "__main__":
    main()
