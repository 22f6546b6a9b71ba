"""``run``: the contract's dispatcher with its arguments and streams given."""

import io
import json
from typing import Any

import pytest

from nri import skel
from nri.errors import NRIError
from nri.skel import process
from nri.types.v1 import Request, Result, State
from nri.version import describe

REQUEST = b'{"version":"0.1","state":"create","id":"a","sandboxID":"b","pid":1,"spec":null}'
NAMED = REQUEST.replace(b"null", b'null,"conf":{"name":"a","size":7}')


class Fake(skel.Plugin):
    type = "fake"
    version = "1.2"
    description = "Does nothing."

    def __init__(self, answer: Any = None) -> None:
        self.conf_schema = {
            "type": "object",
            "properties": {"depth": {"description": "How deep."}, "bare": {}},
        }
        self.answer = answer
        self.requests: list[Request] = []

    def invoke(self, request: Request) -> Any:
        self.requests.append(request)
        return (
            self.answer(request)
            if self.answer
            else request.new_result(self.type, metadata={"done": "yes"})
        )


class Process:
    """A plugin run once: its exit status and what it wrote."""

    def __init__(self, plugin: Any, *argv: str, stdin: bytes = REQUEST) -> None:
        self.stdin = io.BytesIO(stdin)
        out, err = io.BytesIO(), io.StringIO()
        self.status = skel.run(plugin, ["fake", *argv], self.stdin, out, err)
        self.stdout, self.stderr = out.getvalue(), err.getvalue()

    @property
    def result(self) -> Any:
        assert self.stdout.endswith(b"\n")
        return json.loads(self.stdout)


def failing(error: BaseException) -> Fake:
    def answer(request: Request) -> Any:
        raise error

    return Fake(answer)


def test_invoke_answers_a_request_with_a_result_of_its_version() -> None:
    plugin = Fake()
    ran = Process(plugin, "invoke")
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.result == {
        "plugin": "fake",
        "version": "0.1",
        "error": "",
        "metadata": {"done": "yes"},
    }
    assert plugin.requests[0].sandbox_id == "b"
    assert Process(plugin, "invoke", stdin=b'{"version":"7"}').result["version"] == "7"


def test_no_verb_is_usage_on_stderr_and_exit_2() -> None:
    ran = Process(Fake())
    assert (ran.status, ran.stdout) == (2, b"")
    assert ran.stderr == "usage: fake invoke < REQUEST.json (or --help, version, schema)\n"
    assert ran.stdin.tell() == 0


def test_a_wrong_verb_is_a_result_with_an_error_and_exit_0() -> None:
    for verb in ("", "Invoke", "VERSION", "-x", "ünknown"):
        ran = Process(plugin := Fake(), verb)
        assert (ran.status, ran.stderr, plugin.requests) == (0, "", [])
        assert ran.result == {"plugin": "fake", "version": "0.1", "error": f"invalid arg {verb}"}


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (b"", "the document is empty, expected JSON"),
        (b'{"id":\n]', "line 2 column 1: "),
        (b'{"labels":[]}', "request.labels: found an array, expected an object of strings"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_bad_request_is_reported_on_stderr_and_exit_1(stdin: bytes, said: str) -> None:
    for verb in ("invoke", "wrong"):
        ran = Process(Fake(), verb, stdin=stdin)
        assert (ran.status, ran.stdout) == (1, b"")
        assert ran.stderr.startswith("fake: the request on stdin: ")
        assert said in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_a_request_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_REQUEST", len(REQUEST))
    assert Process(Fake(), "invoke").status == 0
    assert "expected one request" in Process(Fake(), "invoke", stdin=REQUEST + b" ").stderr


class Unreadable(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_stdin_that_cannot_be_read_is_exit_1() -> None:
    err = io.StringIO()
    assert skel.run(Fake(), ["fake", "invoke"], Unreadable(), io.BytesIO(), err) == 1
    assert err.getvalue() == "fake: stdin cannot be read: Input/output error; expected a request\n"


def test_exception_is_a_result_with_a_traceback_on_stderr() -> None:
    for error, said in (
        (ValueError("no such cgroup"), "ValueError: no such cgroup"),
        (KeyError("max"), "KeyError: 'max'"),
        (KeyError(), "KeyError"),
    ):
        ran = Process(failing(error), "invoke")
        assert (ran.status, ran.result["error"]) == (0, said)
        assert "Traceback" in ran.stderr
        places = [line for line in ran.stderr.splitlines() if line.startswith("  File ")]
        assert places and all(__file__ in place for place in places)
    for expected, said in (
        (NRIError("found a, expected b"), "found a, expected b"),  # meant for a person
        *(
            (SystemExit(code), f"it tried to exit with {code!r}; expected a result")
            for code in (3, "stop", None)
        ),
    ):
        ran = Process(failing(expected), "invoke")
        assert (ran.status, "Traceback" in ran.stderr, ran.result["error"]) == (0, False, said)


OF_FAKE = Result(plugin="fake")
WRONG_ANSWERS: list[tuple[Any, str]] = [
    (None, "invoke returned null; expected request.new_result('fake')"),
    (
        Request(state="create", id="a"),
        "invoke returned a Request; expected request.new_result('fake')",
    ),
    (OF_FAKE.replace(metadata={"a": 1}), "result: result.metadata.a: found the number 1"),
    (OF_FAKE.replace(extra=1), "its result: result.extra: found the number 1"),
    (OF_FAKE.replace(metadata={"a": None}, extra={"b": {1}}), "its result: cannot write a"),
]


def test_an_answer_that_is_no_result_is_a_result_with_an_error() -> None:
    for answer, said in WRONG_ANSWERS:
        ran = Process(Fake(lambda _, answer=answer: answer), "invoke")
        assert ran.status == 0
        assert said in ran.result["error"]
        assert ran.result["plugin"] == "fake"


class Sized(skel.Conf):
    size: int = skel.fields.integer("how much", 1, 64, default=4)
    name: str = skel.fields.text("whose")


class Nothing(skel.Plugin):
    type = "fake"


class NoPlugin:
    type = "fake"


class NoConf(Fake):
    conf_class = Sized


class NoConfClass(skel.Plugin):
    type = "fake"

    def invoke(self, request: Request, conf: Sized) -> Any:
        return request.new_result(self.type)


class ActsOnText(Fake):
    acts_on = State.CREATE  # type: ignore[assignment] # without its comma


class UsesText(Fake):
    uses = "json"  # type: ignore[assignment] # without its comma


class ActsOnWrong(Fake):
    acts_on = (State.CREATE, "crate")


NO_INVOKE = "defines no method invoke(self, request)"
SOME = "expected a tuple of some of setup, create, resize, update, pause, resume, delete: acts_on = (State.CREATE,)"
UNFIT: dict[str, tuple[Any, str]] = {
    "no conf": (
        NoConf(),
        "class NoConf has a conf_class; expected the method invoke(self, request, conf)",
    ),
    "no class": (
        NoConfClass(),
        "class NoConfClass has no conf_class; expected the method invoke(self, request)",
    ),
    "nothing": (Nothing(), f"class Nothing {NO_INVOKE}"),
    "no plugin": (NoPlugin(), f"class NoPlugin {NO_INVOKE}"),
    "a text": (ActsOnText(), f"class ActsOnText: acts_on: found 'create', {SOME}"),
    "a module": (
        UsesText(),
        "class UsesText: uses: found 'json', expected a tuple of modules: uses = ('json',)",
    ),
    "no state": (ActsOnWrong(), f"class ActsOnWrong: acts_on: found 'crate', {SOME}"),
    "a class": (Fake, "found the class Fake, expected an object of it: skel.main(Fake())"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_plugin_that_cannot_be_invoked_has_a_reason_and_no_traceback(case: str) -> None:
    plugin, why = UNFIT[case]
    ran = Process(plugin, "invoke", stdin=NAMED)
    assert (ran.status, ran.result["error"], ran.stderr) == (0, why, "")
    for verb in ("version", "--version"):
        ran = Process(plugin, verb)
        assert (ran.status, ran.stdout, ran.stderr) == (2, b"", f"fake: {why}\n")


def test_help_tells_what_the_plugin_is_and_takes() -> None:
    for verb in ("-h", "--help", "help"):
        ran = Process(Fake(), verb, stdin=b"not read")
        text = ran.stdout.decode()
        assert (ran.status, ran.stderr, ran.stdin.tell()) == (0, "", 0)
        assert text.startswith(
            "fake 1.2, a plugin of the Node Resource Interface v0.1\n\nDoes nothing.\n"
        )
        assert "  depth: How deep.\n" in text
        assert text.endswith("  bare\n")
    text = Process(Nothing(), "--help").stdout.decode()
    assert text.startswith(
        "fake, a plugin of the Node Resource Interface v0.1\n\nusage: fake invoke"
    )
    assert "conf:" not in text
    assert Process(Nothing(), "schema").result is True


class WithConf(skel.Plugin):
    type = "fake"
    conf_class = Sized
    acts_on = (State.CREATE,)

    def invoke(self, request: Request, conf: Sized) -> Any:
        return request.new_result(self.type, metadata={"size": f"{conf.name} {conf.size + 1}"})


def test_wrong_conf_is_an_error_without_a_traceback() -> None:
    assert Process(WithConf(), "invoke", stdin=NAMED).result["metadata"] == {"size": "a 8"}
    ran = Process(WithConf(), "invoke", stdin=NAMED.replace(b"7", b"65"))
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.result["error"] == "conf.size: found the number 65, expected an integer, 1 to 64"
    assert (
        Process(WithConf(), "invoke").result["error"]
        == "conf.name: missing, expected a string that is not empty"
    )


def test_other_state_gets_an_empty_result_with_any_conf() -> None:
    ran = Process(WithConf(), "invoke", stdin=REQUEST.replace(b"create", b"delete"))
    assert ran.result == {"plugin": "fake", "version": "0.1", "error": ""}


def test_an_unknown_key_of_a_conf_without_keys_expects_none() -> None:
    plugin = WithConf()
    plugin.conf_class = skel.Conf  # type: ignore[assignment]
    ran = Process(plugin, "invoke", stdin=REQUEST.replace(b"{", b'{"conf":{"a":1},', 1))
    assert ran.result["error"] == "conf.a: unknown key, expected none"


def test_help_and_schema_are_made_of_the_conf_class() -> None:
    text = Process(WithConf(), "--help").stdout.decode()
    assert text.endswith(
        "conf:\n  size: how much (integer, at least 1, at most 64, default 4)\n  name: whose (string, required)\n"
    )
    plugin = WithConf()
    assert Process(plugin, "schema").result == Sized.schema()
    plugin.conf_schema = {"type": "object"}
    assert Process(plugin, "schema").result == {"type": "object"}


def test_a_change_that_this_host_would_drop_is_an_error() -> None:
    plugin = Fake(lambda request: request.new_result("fake", adjust={"oomScoreAdj": 1}))
    setup = REQUEST.replace(b"create", b"setup")
    error = Process(plugin, "invoke", stdin=setup).result["error"]
    assert error.startswith(
        "the request lacks the extension adjust: this host would drop what is asked for"
    )
    assert "(oomScoreAdj)" in error
    error = Process(plugin, "invoke").result["error"]
    assert error == "found adjust in answer to create, expected it in answer to setup alone"
    known = REQUEST.replace(b"null", b'null,"extensions":{"adjust":1}')
    assert Process(plugin, "invoke", stdin=known).result["adjust"] == {"oomScoreAdj": 1}


def test_a_plugin_that_needs_an_extension_refuses_to_set_up_without_it() -> None:
    plugin = Fake()
    plugin.needs = ("configuration",)
    setup = REQUEST.replace(b"create", b"setup").replace(b"null", b'null,"extensions":{"adjust":1}')
    assert Process(plugin, "invoke", stdin=setup).result["error"] == (
        "the request lacks the extension configuration: this host shows a part of the OCI configuration; "
        "expected nri-runc, nri-crun or a host that has it"
    )
    assert Process(plugin, "invoke").result["error"] == ""
    whole = setup.replace(b'"adjust":1', b'"adjust":1,"configuration":1')
    assert Process(plugin, "invoke", stdin=whole).result["error"] == ""
    plugin.needs = "configuration"  # type: ignore[assignment] # a mistake
    error = Process(plugin, "invoke").result["error"]
    assert error.endswith("expected a tuple of extensions: needs = ('configuration',)")


@pytest.mark.parametrize(("asked", "shown"), [(True, "(the boolean true)"), ({1: 2}, "(1)")])
def test_a_change_of_another_type_is_an_error_as_well(asked: Any, shown: str) -> None:
    plugin = Fake(lambda request: request.new_result("fake", adjust=asked))
    ran = Process(plugin, "invoke", stdin=REQUEST.replace(b"create", b"setup"))
    assert ran.status == 0
    assert shown in ran.result["error"]


def test_version_is_json() -> None:
    about = {
        "type": "fake",
        "version": "1.2",
        "nri": "0.1",
        "extensions": {"adjust": 1, "configuration": 1},
    }
    for verb in ("version", "--version"):
        assert Process(Fake(), verb).result == about | {"build": describe()}


class Pieces(io.RawIOBase):
    """Takes seven bytes at a time, and at most ``limit`` in all; then it takes no more for now."""

    def __init__(self, limit: int) -> None:
        self.data, self.limit = b"", limit

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int | None:
        taken = bytes(data[: min(7, self.limit - len(self.data))])
        self.data += taken
        return len(taken) or None


def test_answer_is_written_whole_or_it_is_exit_1() -> None:
    out, err = Pieces(1_000_000), io.StringIO()
    assert skel.run(Fake(), ["fake", "invoke"], io.BytesIO(REQUEST), out, err) == 0
    assert json.loads(out.data)["metadata"] == {"done": "yes"}
    assert skel.run(Fake(), ["fake", "invoke"], io.BytesIO(REQUEST), Pieces(20), err) == 1
    assert "the result cannot be written to stdout" in err.getvalue()
    assert "it takes no more" in err.getvalue()
    assert skel.run(Fake(), ["fake"], io.BytesIO(), io.BytesIO(), None) == 2
    text = io.StringIO()
    assert skel.run(Fake(), ["fake", "invoke"], io.StringIO(REQUEST.decode()), text, err) == 0
    assert json.loads(text.getvalue())["plugin"] == "fake"


def test_refusal_is_an_error_of_a_plugin_that_works() -> None:
    ran = Process(failing(skel.Refusal("size: found 9\n, expected at most 3")), "invoke")
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.result == {
        "plugin": "fake",
        "version": "0.1",
        "error": "size: found 9\\n, expected at most 3",
        "refused": True,
    }
    assert "refused" not in Process(failing(NRIError("no")), "invoke").result
    assert "refused" not in Process(failing(ValueError("no")), "invoke").result
