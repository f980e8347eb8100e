"""Programs by name: shipped, described in the config, and of other packages."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from logist.agents.programs.described import Described
from logist.agents.programs.finding import (
    PRESETS,
    Foreign,
    list_program_names,
    load_errand_program,
    load_program,
)
from logist.agents.programs.protocol import Finished, Spent
from logist.config.programs import ProgramEntry
from logist.config.settings import load_settings
from logist.core.model import ErrorKind
from logist.errors import InvalidFile
from logist.quick_model import ValidationError
from tests.shell.agents.test_programs_start import ENDPOINT, KEY, run_of
from tests.support import ROOT

SOUND = """
from logist.agents.programs.protocol import Invocation, Result

class Sound:
    name, executable, metered = "sound", "sound", False
    def invocation(self, run):
        return Invocation(argv=("sound",), environment={})
    def read(self, finished):
        return Result(text=finished.stdout)

made = Sound()

class Bad(Sound):
    def invocation(self, run):
        raise KeyError("port")
    def read(self, finished):
        raise RuntimeError("no idea")

class Odd(Sound):
    def invocation(self, run):
        return ["sound"]
    def read(self, finished):
        return None

class Half:
    name = "half"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages can be installed that this process sees."""
    place = tmp_path / "packages"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "third_party", raising=False)
    return place


def install(place: Path, points: dict[str, str], code: str = SOUND, name: str = "acme-agents") -> None:
    (place / "third_party.py").write_text(code, "utf-8")
    meta = place / f"{name.replace('-', '_')}-1.2.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", "utf-8")
    lines = "\n".join(f"{key} = {value}" for key, value in points.items())
    (meta / "entry_points.txt").write_text(f"[logist.agents]\n{lines}\n", "utf-8")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_shipped_program(name: str) -> None:
    found = load_program(name, {})
    assert (found.name, found.executable, found.metered) == (name, name, True)


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(
        InvalidFile, match=r"unknown agent `codx`; known: model, litellm, aider, .*opencode"
    ) as error:
        load_program("codx", {})
    assert "did you mean `codex`" in str(error.value)


@pytest.mark.parametrize("value", ["third_party:made", "third_party:Sound"])
def test_a_program_of_a_package_is_an_object_or_a_class(package: Path, value: str) -> None:
    install(package, {"sound": value})
    found = load_program("sound", {})
    assert found.invocation(run_of()).argv == ("sound",)
    assert found.read(Finished(0, "exited", "hi", "")).text == "hi"
    assert "sound" in list_program_names({})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("third_party:nothing", "AttributeError"),
        ("no_such_module:x", "ModuleNotFoundError"),
        ("third_party:Half", "missing executable, metered, invocation, read"),
    ],
)
def test_a_broken_package_is_named_with_its_error(package: Path, value: str, words: str) -> None:
    install(package, {"broken": value})
    with pytest.raises(InvalidFile, match=words) as error:
        load_program("broken", {})
    assert "package acme-agents 1.2" in str(error.value)


def test_a_package_that_fails_at_work_is_named_too(package: Path) -> None:
    install(package, {"bad": "third_party:Bad", "odd": "third_party:Odd"})
    for name, started, read in (
        ("bad", "KeyError: 'port'", "RuntimeError"),
        ("odd", "`invocation` must return an Invocation", "must return a Result"),
    ):
        found = load_program(name, {})
        with pytest.raises(InvalidFile, match=f"acme-agents 1.2: .*{started}"):
            found.invocation(run_of())
        error = found.read(Finished(0, "exited", "x", "")).error
        assert error is not None
        assert error.kind == ErrorKind.BAD_REQUEST
        assert "acme-agents" in error.message
        assert read in error.message


def test_no_package_takes_the_name_of_a_shipped_program(package: Path) -> None:
    install(package, {"codex": "third_party:made"})
    assert not isinstance(load_program("codex", {}), Foreign)


def test_two_packages_with_one_name(package: Path) -> None:
    install(package, {"sound": "third_party:made"})
    install(package, {"sound": "third_party:made"}, name="beta-agents")
    with pytest.raises(InvalidFile, match=r"package acme-agents 1\.2 and package beta-agents 1\.2"):
        load_program("sound", {})


def entry(**more: Any) -> ProgramEntry:
    values: dict[str, Any] = {"argv": ["tool", "--url", "{endpoint}"], "metered": False}
    return ProgramEntry.model_validate({**values, **more})


def test_the_config_goes_before_the_shipped() -> None:
    assert load_program("codex", {"codex": entry()}).executable == "tool"
    assert load_errand_program("codex", entry().model_dump(mode="json")).executable == "tool"
    assert load_errand_program("codex", None) is PRESETS["codex"]


def test_a_described_program_is_read_from_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "agents:\n  tool:\n    argv: [tool, '{endpoint}']\n    output: json\n    text: result\n"
        "    usage: {input: in, output: out}\n",
        "utf-8",
    )
    settings = load_settings(tmp_path, tmp_path / "none").settings
    assert load_program("tool", settings.agents).metered


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tool: {argv: [], metered: false}", "agents.tool.argv"),
        ("tool: {argv: [x]}", "must have `usage`, the paths of the token counts, or `metered: false`"),
        ("tool: {argv: [x], output: json, metered: false}", "must have `text`"),
        ("tool: {argv: ['{key}'], metered: false}", "unknown placeholder {key}"),
        ("tool: {argv: [x], environment: {K: '{key}'}, metered: false}", "unknown placeholder {key}"),
        ("tool: {argv: [x], prompt: file, metered: false}", "must have {prompt_file}"),
        ("tool: {argv: [x], files: {../x: y}, metered: false}", "must be a relative path without `..`"),
        ("tool: {argv: [x], read_from: /etc/passwd, metered: false}", "must be a relative path without `..`"),
        ("Tool: {argv: [x], metered: false}", "agents"),
        ("tool: {argv: [x], metred: false}", "metred"),
    ],
)
def test_a_description_that_cannot_work_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "config.yaml").write_text(f"agents:\n  {text}\n", "utf-8")
    with pytest.raises(InvalidFile) as error:
        load_settings(tmp_path, tmp_path / "none")
    assert words in str(error.value)


def test_placeholders_are_filled_in_once() -> None:
    described = entry(
        argv=["tool", "--url={endpoint}", "-m", "{model}", "{provider_model}", "{workspace}", '{"a": 1}'],
        environment={"TOOL_HOME": "{home}/x", "JOB": "{name}"},
        files={"tool.json": '{"key": "{key}", "model": "{model}"}'},
        pass_key_as="TOOL_KEY",
        full_argv=["--all"],
    )
    made = Described("tool", described).invocation(run_of(of={"provider_model": "openai/{home}"}))
    assert made.argv == (
        "tool", f"--url={ENDPOINT}", "-m", "{home}", "openai/{home}", "/workspace", '{"a": 1}', "--all",
    )  # fmt: skip
    assert made.environment == {"TOOL_HOME": "/home/x", "JOB": "the-job", "TOOL_KEY": KEY}
    assert json.loads(made.files["tool.json"]) == {"key": KEY, "model": "{home}"}
    assert made.stdin == b"Say it."


@pytest.mark.parametrize(
    ("more", "argv", "stdin", "files"),
    [
        ({}, (), b"Say it.", {}),
        ({"prompt": "argument"}, ("Say it.",), b"", {}),
        ({"prompt": "argument", "argv": ["tool", "-p={prompt}", "{endpoint}"]}, (), b"", {}),
        (
            {"prompt": "file", "full_argv": ["@{prompt_file}"]},
            ("@/home/prompt.txt",),
            b"",
            {"prompt.txt": b"Say it."},
        ),
    ],
)
def test_how_the_prompt_gets_there(more: Any, argv: tuple[str, ...], stdin: bytes, files: Any) -> None:
    made = Described("tool", entry(**more)).invocation(run_of())
    assert made.argv[3:] == argv
    assert (made.stdin, made.files) == (stdin, files)
    assert "Say it." in " ".join(made.argv) + made.stdin.decode() + str(made.files)


@pytest.mark.parametrize(("profile", "word"), [("read", "-r"), ("edit", "-e"), ("full", "-f")])
def test_the_mode_of_a_described_program(profile: Any, word: str) -> None:
    described = entry(read_only_argv=["-r"], edit_argv=["-e"], full_argv=["-f"])
    assert Described("tool", described).invocation(run_of(profile=profile)).argv[3:] == (word,)


def test_a_described_program_that_cannot_be_told_the_endpoint_is_not_started() -> None:
    with pytest.raises(InvalidFile, match=r"has no \{endpoint\}, so it would use a public API"):
        Described("tool", entry(argv=["tool"])).invocation(run_of())
    with pytest.raises(InvalidFile, match=r"its config has \{endpoint\}"):
        Described("tool", entry()).invocation(run_of(of={"endpoint": None}))
    with pytest.raises(InvalidFile, match="too long for a command-line argument"):
        Described("tool", entry(prompt="argument")).invocation(run_of(prompt="x" * 130_000))


JSON = {
    "output": "json",
    "text": "messages.-1.text",
    "error": "error.message",
    "usage": {"input": "u.in", "output": "u.out", "cached": "u.cached"},
    "cost": "u.usd",
    "session": "id",
    "metered": True,
}
SAID = {
    "messages": [{"text": "no"}, {"text": "Done."}],
    "u": {"in": 10, "out": 2, "cached": 4, "usd": 0.5},
    "id": "s1",
}


@pytest.mark.parametrize(
    ("more", "stdout"),
    [
        (JSON, json.dumps(SAID)),
        (JSON, "starting...\n" + json.dumps(SAID, indent=1) + "\nbye\n"),
        (
            {**JSON, "output": "jsonl", "where": {"type": "end"}},
            json.dumps({"type": "end", **SAID})
            + '\n{"type": "x", "messages": [{"text": "y"}]}\n{"type": "end"',
        ),
    ],
)
def test_a_described_json_program_is_read(more: Any, stdout: str) -> None:
    result = Described("tool", entry(**more)).read(Finished(0, "exited", stdout, ""))
    assert (result.text, result.session, result.reported_microcents) == ("Done.", "s1", 50_000_000)
    assert result.spent == Spent(uncached=6, cached=4, output=2)


@pytest.mark.parametrize(
    ("more", "finished", "kind"),
    [
        ({}, Finished(1, "exited", "half an answer", "HTTP 401"), ErrorKind.AUTH),
        ({}, Finished(0, "exited", " \n", ""), ErrorKind.TRANSIENT),
        (JSON, Finished(0, "exited", '{"error": {"message": "rate limit"}}', ""), ErrorKind.TRANSIENT),
        (JSON, Finished(7, "exited", "no JSON", "connection refused"), ErrorKind.REFUSED),
    ],
)
def test_a_described_program_that_failed(more: Any, finished: Finished, kind: ErrorKind) -> None:
    error = Described("tool", entry(**more)).read(finished).error
    assert error is not None
    assert error.kind == kind


def test_a_described_program_may_answer_in_a_file() -> None:
    described = Described("tool", entry(read_from="out/answer.txt"))
    assert described.invocation(run_of()).results == ("out/answer.txt",)
    assert described.read(Finished(0, "exited", "noise", "", {"out/answer.txt": "Done."})).text == "Done."


def test_a_description_holds_no_unknown_words() -> None:
    with pytest.raises(ValidationError):
        entry(tmeout=3)


def test_the_example_of_the_page_is_an_agent(package: Path) -> None:
    page = (ROOT / "docs" / "agents.md").read_text("utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    points = dict(re.findall(r'^(\w+) = "(parrot_agent:\w+)"$', page, re.MULTILINE))
    assert len(code.splitlines()) <= 35
    install(package, points)
    (package / "parrot_agent.py").write_text(code, "utf-8")
    found = load_program("parrot", {})
    made = found.invocation(run_of())
    assert json.loads(made.files["parrot.json"])["url"] == ENDPOINT
    assert made.environment == {"PARROT_KEY": KEY}
    result = found.read(Finished(0, "exited", '{"text": "Done.", "in": 5, "out": 2}', ""))
    assert (result.text, result.spent) == ("Done.", Spent(5, 0, 2))
    failed = found.read(Finished(1, "exited", "", "no seeds"))
    assert failed.error is not None
    assert failed.error.message == "no seeds"


def test_the_described_example_of_the_page_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "agents.md").read_text("utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    text = next(example for example in examples if example.startswith("agents:"))
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    settings = load_settings(tmp_path, tmp_path / "none").settings
    made = load_program(settings.agent, settings.agents).invocation(run_of(profile="read"))
    assert made.argv == ("mytool", "--model", "scripted", "--url", ENDPOINT, "--read-only")


def test_the_page_explains_every_key_and_every_program() -> None:
    page = (ROOT / "docs" / "agents.md").read_text("utf-8")
    assert [name for name in PRESETS if f"| `{name}` |" not in page] == []
    assert [key for key in ProgramEntry.model_fields if f"`{key}`" not in page] == []
