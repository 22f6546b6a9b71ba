"""Plugins that each break one rule: a line or two of shell around the plugin in C of docs/other-languages.md.

``right`` runs that plugin. ``answer`` gives it ``$request``, which holds stdin. ``edit`` changes its output with sed.
The fault of each is for the check of its name, and for no other.
"""

from __future__ import annotations

PRELUDE = """#!/bin/sh
folder={folder}
right() {{ "$folder/right/class-c" "$@"; }}
edit() {{ script=$1; shift; out=$(right "$@") || exit; printf '%s\\n' "$out" | sed "$script"; }}
answer() {{ printf %s "$request" | right "$@"; }}
"""

BEFORE = """
[ -e /proc/$$/fd/0 ] || exec "$folder/right/class-c" "$@"
request=$(cat)
"""
"""For a fault that depends on the request; the shell drops its last newlines and its NULs."""


def fails_for(pattern: str) -> str:
    """A plugin that exits with status 4 if its request matches a pattern of the shell."""
    return f'{BEFORE}case $request in {pattern}) exit 4 ;; esac\nanswer "$@"'


def accepts(pattern: str) -> str:
    """A plugin that takes a request that matches a pattern for an empty one."""
    return f"""{BEFORE}case $request in {pattern}) request='{{}}' ;; esac\nanswer "$@\""""


def edits_for(pattern: str, script: str) -> str:
    """A plugin whose output sed changes if its request matches a pattern."""
    changed = f"""out=$(answer "$@") || exit; printf '%s\\n' "$out" | sed '{script}'"""
    return f'{BEFORE}case $request in {pattern}) {changed}; exit ;; esac\nanswer "$@"'


def edits(script: str) -> str:
    """A plugin whose output sed changes."""
    return f"edit '{script}' \"$@\""


ERROR = 's/"error":""/"error":"no"/'

WRONG = {
    "exit-0": 'right "$@" && exit 3',
    "exit-0: output": "exec cat /dev/zero",
    "exit-0: more": "right \"$@\" && echo '{}'",
    "result-keys: plugin": edits('s/"plugin":"class-c"/"plugin":"other"/'),
    "result-keys: version": edits('s/"version":"0.1"/"version":"9"/'),
    "result-keys: error": edits('s/"error":""/"error":null/'),
    "result-keys: metadata": edits('s/"class":"none"/"class":5/'),
    "every-state": fails_for("""*'"state":"pause"'*"""),
    "unknown-state": edits_for("""*'"state":"nri-conformance"'*""", ERROR),
    "unknown-state: none": edits_for("""*'"state":""'*""", ERROR),
    "delete-alone": edits_for("""*'"state":"delete"'*""", ERROR),
    "late-create": fails_for("""*'"late":true'*"""),
    "missing-keys": f"""{BEFORE}
case $request in *'"spec"'*) ;; '{{"version"'*'}}') exit 4 ;; esac
answer "$@\"""",
    "null-keys": fails_for("""*'"pid":null'*"""),
    "unknown-keys": fails_for("""*'"nriConformance":{"unknown":[1,null,"x"]}'*"""),
    "previous-results": fails_for("""*'"results":[{'*"""),
    "any-resources": fails_for("""*'"resources":"text"'*"""),
    "any-conf": fails_for("""*'"conf":"text"'*"""),
    "text": fails_for(r"*'\u2028'*"),
    "text: white space": fails_for("*'\n'*"),
    "large": f"""{BEFORE}[ ${{#request}} -lt 400000 ] || exit 4\nanswer "$@\"""",
    "broken: nothing": accepts("''"),
    "broken": accepts("nonsense"),
    "broken: cut off": f"""{BEFORE}
case $request in *'}}') ;; '{{"'*) request='{{}}' ;; esac
answer "$@\"""",
    "full-stdout": 'out=$(right "$@") || exit; printf "%s\\n" "$out" 2>/dev/null; exit 0',
    "leaves-nothing": """right "$@"
status=$?
sleep 1000 >/dev/null 2>&1 </dev/null &
exit $status""",
    "changes: elsewhere": edits('/metadata/s/}$/,"adjust":{"args":["x"]}}/'),
    "changes: form": edits_for(
        """*'"state":"setup"'*extensions*""", 's/}$/,"adjust":{"nonsense":1}}/'
    ),
}
"""By the id of the check that catches it, and the fault: the rest of the plugin's script."""
