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
    "output-size": "exec cat /dev/zero",
    "one-result": "right \"$@\" && echo '{}'",
    "plugin-name": edits('s/"plugin":"class-c"/"plugin":"other"/'),
    "result-version": edits('s/"version":"0.1"/"version":"9"/'),
    "error-string": edits('s/"error":""/"error":null/'),
    "error-line": edits(r'/metadata/s/"error":""/"error":"two\\nlines"/'),
    "metadata-strings": edits('s/"class":"none"/"class":5/'),
    "every-state": fails_for("""*'"state":"pause"'*"""),
    "unknown-state": edits_for("""*'"state":"nri-conformance"'*""", ERROR),
    "no-state": edits_for("""*'"state":""'*""", ERROR),
    "delete-alone": edits_for("""*'"state":"delete"'*""", ERROR),
    "create-twice": f"""{BEFORE}
case $request in *'"state":"create"'*)
    id=$(printf %s "$request" | sed -n 's/.*"id":"\\([^"]*\\)".*/\\1/p')
    if [ -e "$folder/seen.$id" ]; then
        printf %s "$request" | edit '{ERROR}' "$@"; exit
    fi
    : >"$folder/seen.$id" ;;
esac
answer "$@\"""",
    "late-create": fails_for("""*'"late":true'*"""),
    "sandbox": f"""{BEFORE}
case $request in *-pod*) ;; *'"sandboxID":"nri'*) exit 4 ;; esac
answer "$@\"""",
    "missing-keys": f"""{BEFORE}
case $request in *'"spec"'*) ;; '{{"version"'*'}}') exit 4 ;; esac
answer "$@\"""",
    "null-keys": fails_for("""*'"pid":null'*"""),
    "no-process": fails_for("""*'"pid":0'[,}]*"""),
    "unknown-keys": fails_for("""*'"nriConformance":{"unknown":[1,null,"x"]}'*"""),
    "previous-results": fails_for("""*'"results":[{'*"""),
    "any-resources": fails_for("""*'"resources":"text"'*"""),
    "any-conf": fails_for("""*'"conf":"text"'*"""),
    "text": fails_for(r"*'\u2028'*"),
    "large": f"""{BEFORE}[ ${{#request}} -lt 400000 ] || exit 4\nanswer "$@\"""",
    "white-space": fails_for("*'\n'*"),
    "empty-stdin": accepts("''"),
    "not-json": accepts("nonsense"),
    "truncated": f"""{BEFORE}
case $request in *'}}') ;; '{{"'*) request='{{}}' ;; esac
answer "$@\"""",
    "not-an-object": accepts("'[]'"),
    "text-after": accepts("*'}{'*"),
    "wrong-types": accepts("""*'"pid":"1234"'*"""),
    "whole-pid": accepts("""*'"pid":0.0'*"""),
    "key-case": fails_for("""*'"STATE"'*"""),
    "last-key": fails_for("""'{"version":"9"'*"""),
    "not-utf-8": fails_for(r"*'\ud800'*"),
    "deep": fails_for("""*'[{"a":[{"a":[{"a"'*"""),
    "slow-stdin": """
[ -e /proc/$$/fd/0 ] || exec "$folder/right/class-c" "$@"
request=$(dd bs=65536 count=1 2>/dev/null)
rest=$(cat)
if [ -n "$rest" ] && [ ${#rest} -lt 4096 ]; then exit 4; fi
request=$request$rest
answer "$@\"""",
    "closed-stdin": '[ -e /proc/$$/fd/0 ] || exit 0\nright "$@"',
    "full-stdout": 'out=$(right "$@") || exit; printf "%s\\n" "$out" 2>/dev/null; exit 0',
    "broken-stdout": """trap '' PIPE
out=$(right "$@") || exit
printf '%s\\n' "$out" || case $(readlink /proc/$$/fd/1) in pipe:*) exit 0 ;; *) exit 1 ;; esac""",
    "environment": '[ -n "$LANG" ] || exit 4\nright "$@"',
    "directory": '[ "$(umask)" = 0022 ] || exit 4\nright "$@"',
    "at-once": """mkdir "$folder/lock" || exit 4
sleep 0.05
right "$@"
status=$?
rmdir "$folder/lock"
exit $status""",
    "leaves-nothing": """right "$@"
status=$?
setsid sleep 1000 >/dev/null 2>&1 </dev/null &
exit $status""",
    "changes-elsewhere": edits('/metadata/s/}$/,"adjust":{"args":["x"]}}/'),
    "changes-form": edits_for("""*'"state":"setup"'*extensions*""", 's/}$/,"adjust":{"nonsense":1}}/'),
    "changes-unannounced": edits_for("""*'"state":"setup"'*""", 's/}$/,"adjust":{"args":["x"]}}/'),
    "no-verb": '[ $# = 0 ] && exit 0\nright "$@"',
    "unknown-verb": '[ "$1" = start ] && set -- invoke\nright "$@"',
    "help": '[ "$1" = -h ] && exit 1\nright "$@"',
    "version": edits('s/"type":"class-c"/"type":"other"/'),
    "schema": """[ "$1" = schema ] && echo '{"type":5}' && exit\nright "$@\"""",
    "resident": edits('s/"states":/"resident":1,"states":/'),
    "schema-conf": """[ "$1" = schema ] && echo '{"type":"string"}' && exit\nright "$@\"""",
}
"""By the id of the check that catches it: the rest of the plugin's script."""
