"""Runs a plugin from its source, in the way in which its executable will: the script of a child process.

    python -I -S -X utf8 rehearse.py REPORT SCRIPT VERB FOLDER…

``-I -S`` because an executable has neither the environment's Python variables nor ``site``; imports are looked up in
the FOLDERs only. At the end REPORT, a file, gets a line for each module that is loaded, and one for an exception. It
imports nothing but ``sys``: what it would import would be taken for the plugin's.
"""

import sys


def main() -> None:
    """Run the plugin, and write the report."""
    report, script, verb, *folders = sys.argv[1:]
    sys.argv[:] = [script, verb]
    sys.path[:] = folders
    module = type(sys)("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    failure = ""
    try:
        with open(script, "rb") as file:
            source = file.read()
        exec(compile(source, script, "exec"), module.__dict__)  # noqa: S102 - the author's own plugin
        failure = "ended"
    except SystemExit:
        raise
    except BaseException as error:
        failure = _describe(error, script)
        raise
    finally:
        names = sorted(sys.modules)
        with open(report, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join([f"{name}\n" for name in names]) + (f" {failure}\n" if failure else ""))


def _describe(error: BaseException, script: str) -> str:
    """Return the line of the plugin at which an exception came, the module that is missing, and the error."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == script:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        script, line = error.filename, error.lineno or 0
    missing = error.name if isinstance(error, ModuleNotFoundError) else ""
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    return "\t".join([script, str(line), missing or "", text])


if __name__ == "__main__":
    main()
