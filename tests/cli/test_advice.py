"""Commands that messages print: each names its job, is complete, and acts on that job while another one is selected."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

import logist
from logist.cli.main import root
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.faults import asked, restate

WITHOUT_JOB = {"create", "list", "import", "select"}
"""Commands below `logist job` that are about no job, or name it otherwise."""
PLACEHOLDERS = {"N": "2", "CENTS": "1000", "MINUTES": "1000", "STEP": "task", "NAME": "Actor", "...": "why"}
COMMAND = re.compile(r"(?P<quote>')?\blogist (?=job |run\b|doctor\b|init\b)")
STOPS = {"for", "if", "in", "shows", "to", "when", "while", "with"}
"""Words after a command that are not part of it."""
JOINED = re.compile(r"\b(then|or): ?$")


class Printed(NamedTuple):
    """A command in a message."""

    words: tuple[str, ...]
    """What follows `logist`."""
    follows: bool
    """It comes after the command before it, which says "then"."""


def printed(message: str) -> Iterator[Printed]:
    """The commands in a message; words in backticks are mentions, no advice."""
    for found in COMMAND.finditer(re.sub(r"`[^`]*`", "", message)):
        text = re.sub(r"`[^`]*`", "", message)
        rest = text[found.end() :]
        end = rest.find("'") if found["quote"] else -1
        joined = JOINED.search(text[: found.start()])
        yield Printed(tuple(_words(rest[:end] if end >= 0 else rest)), bool(joined and joined[1] == "then"))


def _words(text: str) -> Iterator[str]:
    """The words that belong to the command: its options, and as many others as it takes."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=",;()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.quotes = '"'  # an apostrophe may end the words that are quoted in a sentence
    words = iter(lexer)
    here: click.Command = root
    context = click.Context(root, info_name="logist")
    while isinstance(here, click.Group):
        word = next(words)
        found = here.get_command(context, word)
        assert found is not None, f"no command {word!r}: {text}"
        here, context = found, click.Context(found, info_name=word, parent=context)
        yield word
    yield from _arguments(here, words, text)


def _arguments(here: click.Command, words: Iterator[str], text: str) -> Iterator[str]:
    options = {name: each for each in here.params if isinstance(each, click.Option) for name in each.opts}
    takes = sum(isinstance(each, click.Argument) for each in here.params)
    for word in words:
        if word.startswith("--"):
            assert word in options, f"no option {word} of {here.name}: {text}"
            yield word
            if not options[word].is_flag:
                yield next(words)
            if word == "--job" and any(each.name == "job_argument" for each in here.params):
                takes -= 1
        elif takes > 0 and re.fullmatch(r"[\w./-]+", word) and word not in STOPS:
            takes -= 1
            yield word
        else:
            return


class TestEveryMessageOfTheSource:
    """Each command in the source, placeholders and all, is one that Logist has, and names its job."""

    def messages(self) -> Iterator[tuple[str, str]]:
        for path in sorted(Path(logist.__file__).parent.rglob("*.py")):
            text = path.read_text("utf-8")
            if not COMMAND.search(text):
                continue
            tree = ast.parse(text)
            skipped = {id(part) for node in ast.walk(tree) for part in self.documentation(node)}
            for node in ast.walk(tree):
                if id(node) in skipped:
                    continue
                if isinstance(node, ast.JoinedStr):
                    skipped |= {id(part) for part in ast.walk(node)}
                    yield f"{path}:{node.lineno}", "".join(map(self.shown, node.values))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path}:{node.lineno}", node.value

    def documentation(self, node: ast.AST) -> Iterator[ast.AST]:
        """Docstrings, of modules, functions, classes and fields."""
        for body in (getattr(node, name, None) for name in ("body", "orelse")):
            for each in body if isinstance(body, list) else ():
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    yield each.value

    def shown(self, part: ast.expr) -> str:
        return str(part.value) if isinstance(part, ast.Constant) else "VALUE"

    def test_it_names_its_job_and_is_complete(self) -> None:
        seen = set()
        for place, text in self.messages():
            message = re.sub(r"(?<=\w)\{job\}", " --job VALUE", text).replace("{job}", "VALUE")
            if re.match(r"logist job VALUE|logist (job|doctor) ?$", message):
                continue  # any of several commands, or a beginning that is only compared with
            for words, _ in printed(message):
                if words[0] == "job" and words[1] not in WITHOUT_JOB:
                    assert "--job" in words or "JOB" in words, f"{place}: {message}"
                seen.add(words[:2])
        assert len(seen) > 25, seen


def draft(desk: Desk) -> None:
    desk.create("j2", "--draft")


def pending(desk: Desk) -> None:
    desk.create("j2")


def stepped(*answers: dict[str, Any], options: tuple[str, ...] = ()) -> Callable[[Desk], None]:
    """A job after as many steps as there are answers."""

    def make(desk: Desk) -> None:
        desk.create("j2", *options)
        desk.script(*answers)
        for _ in answers or [None]:
            desk("job", "step", "j2")

    return make


def decided(*words: str, make: Callable[[Desk], None] = pending) -> Callable[[Desk], None]:
    """A job about which a person has decided."""

    def decide(desk: Desk) -> None:
        make(desk)
        name, *rest = words
        assert desk("job", name, "j2", *rest).code in (0, 4, 7, 8)

    return decide


def in_doubt(desk: Desk) -> None:
    desk.create("j2")
    asked(sent=True)(desk)
    desk("job", "step", "j2")


def unmerged(desk: Desk) -> None:
    repository = support.make_repository(desk.place / "repository")
    desk.script(answer(files={"new.txt": "x"}))
    desk.create("j2", "--repo", str(repository), "--no-review", "--approval", "none")
    desk("job", "step", "j2")


def following(step: str) -> Callable[[Desk], None]:
    """A job that follows a workflow of this one step, and was stepped once."""

    def make(desk: Desk) -> None:
        (desk.place / "inner.yaml").write_text("name: I\nsteps:\n- {id: s, prompt: x}\n", "utf-8")
        (desk.place / "w.yaml").write_text(f"name: W\nsteps:\n- {step}\n", "utf-8")
        assert desk("job", "create", "--id", "j2", "--workflow", "w.yaml").code == 0
        desk("job", "step", "j2")

    return make


HALTED = stepped(options=("--max-allowed-iterations", "0"))
STUCK = stepped(answer(command("STUCK", "Which?")))
STATES: dict[str, Callable[[Desk], None]] = {
    "draft": draft,
    "pending": pending,
    "review": stepped(answer()),
    "approval": stepped(answer(), answer()),
    "stuck": STUCK,
    "out-of-attempts": stepped(answer(command("RETRY")), options=("--max-attempts", "1")),
    "stuck-in-review": stepped(answer(), answer(command("STUCK", "Hm."))),
    "sent-back": stepped(answer(), answer(command("RETRY", "Again."))),
    "in-doubt": in_doubt,
    "suspended": decided("suspend"),
    "halted": HALTED,
    "halted-cost": stepped(options=("--cost-threshold", "0")),
    "limit-raised": decided("config", "--set", "limits.max_allowed_iterations=5", make=HALTED),
    "manual": following("{id: task, execution: manual, prompt: Look at it.}"),
    "waiting": following("{id: task, stepType: subflow, subflowId: inner}"),
    "success": stepped(answer(), options=("--no-review", "--approval", "none")),
    "unmerged": unmerged,
    "failed": decided("fail"),
    "canceled": decided("cancel"),
}
TRIED = (
    ("activate",),
    ("approve",),
    ("approve", "--output", "{}"),
    ("approve", "--override", "why"),
    ("reject", "--note", "why"),
    ("resubmit",),
    ("resubmit", "--retry"),
    ("suspend",),
    ("resume",),
    ("cancel",),
    ("step",),
    ("preview",),
    ("poststep", "--response-string", "x", "--dry-run"),
    ("poststep", "--response-string", command()),
    ("rerun",),
    ("role", "Actor"),
    ("config", "--set", "title=x"),
    ("merge",),
    ("status",),
    ("show",),
)


class Sat(NamedTuple):
    """A project with the job `j2` in some state, and a job `other` that is selected."""

    desk: Desk
    kept: Path

    def put_back(self) -> None:
        shutil.rmtree(self.desk.jobs)
        shutil.copytree(self.kept, self.desk.jobs, symlinks=True)

    def advice(self) -> Iterator[str]:
        """What the commands say that leave the job as it is; another state has advice of its own."""
        before = support.tree(self.desk.jobs)
        for name, *rest in TRIED:
            words = ("j2", "Actor") if name == "role" else ("j2", *rest)
            ran = self.desk("job", name, *words, "--json")
            if support.tree(self.desk.jobs) != before:
                self.put_back()
                continue
            document = ran.json
            yield from (each["fix"] for each in document["diagnostics"] if each["fix"])
            yield from (each["message"] for each in document["diagnostics"])
            data = document["data"] or {}
            yield from (data[key] for key in ("next_command", "switch_command") if data.get(key))

    def run(self, words: tuple[str, ...]) -> support.Ran:
        (self.desk.place / "FILE").write_text(command(), "utf-8")
        filled = [_filled(word) for word in words]
        return self.desk(*filled)


def _filled(word: str) -> str:
    name, separator, value = word.partition("=")
    if word == "'{...}'":
        return "{}"
    return name + separator + PLACEHOLDERS.get(value, value) if separator else PLACEHOLDERS.get(word, word)


@pytest.mark.deep_beyond(5)
@pytest.mark.parametrize("state", STATES)
def test_what_is_advised_acts_on_the_job_though_another_is_selected(desk: Desk, state: str) -> None:
    desk.create("other")
    STATES[state](desk)
    assert desk("job", "select", "other").code == 0
    desk.script(*[answer()] * 9)
    sat = Sat(desk, desk.place / "kept")
    shutil.copytree(desk.jobs, sat.kept, symlinks=True)
    seen = {tuple(printed(text)) for text in sat.advice()} - {()}
    assert seen
    for commands in seen:
        for number in range(len(commands)):
            first = number
            while commands[first].follows:
                first -= 1
            runs(sat, [each.words for each in commands[first : number + 1]])


def runs(sat: Sat, chain: list[tuple[str, ...]]) -> None:
    """Runs commands one after another: each is taken, and none touches the other job."""
    sat.put_back()
    other = support.tree(sat.desk.job("other"))
    for words in chain:
        if "DIR" in words:
            return  # a repository that the work belongs to: there is none
        ran = sat.run(words)
        assert ran.code in (0, 3, 4, 7, 11) or (words[:2] == ("job", "config") and ran.code == 8), (
            words,
            ran,
        )
    assert support.tree(sat.desk.job("other")) == other, chain


def test_it_is_about_the_jobs_of_the_directory_that_was_named(desk: Desk) -> None:
    """A job of the same name in the usual directory stays as it is."""
    desk.create("j2")
    there = ("--jobs-dir", "other jobs")
    desk.create("j2", "--draft", *there)
    usual = support.tree(desk.jobs)
    refused, status = desk("job", "approve", "j2", *there), desk("job", "status", "j2", *there)
    wanted = "logist job activate --jobs-dir 'other jobs' --job j2"
    assert f"({wanted})" in refused.err
    assert f"next: {wanted}\n" in status.out
    for words in (("job", "list"), ("job", "status", "j2")):
        data = desk(*words, *there, "--json").json["data"]
        assert (data[0] if isinstance(data, list) else data)["next_command"] == wanted
    assert desk(*shlex.split(wanted)[1:]).code == 0
    assert desk("run", *there).code == 11
    assert "(logist job approve --jobs-dir 'other jobs' --job j2, or: " in desk("run", *there).err
    assert support.tree(desk.jobs) == usual


def test_after_a_limit_is_raised_the_advice_is_to_resume(desk: Desk) -> None:
    HALTED(desk)
    assert ", then: logist job resume --job j2" in desk("job", "status", "j2").out
    raised = desk("job", "config", "j2", "--set", "limits.max_allowed_iterations=5")
    for ran in (raised, desk("job", "status", "j2"), desk("job", "step", "j2")):
        assert "next: logist job resume --job j2\n" in ran.out
    assert desk("job", "list", "--json").json["data"][0]["next_command"] == "logist job resume --job j2"


def test_a_limit_that_the_next_step_would_reach_is_only_raised(desk: Desk) -> None:
    """The job is not halted yet, so there is nothing to resume."""
    desk.create("j2", "--max-allowed-iterations", "0")
    advised = desk("job", "preview", "j2", "--json").json["data"]["next_command"]
    assert advised == "logist job config --job j2 --set limits.max_allowed_iterations=N"


READERS = ("status", "show", "history", "step", "approve", "preview", "replay", "fork", "merge")


@pytest.mark.parametrize("damage", ["cut", "changed", "sealed"])
def test_a_damaged_state_has_one_remedy(desk: Desk, damage: str) -> None:
    desk.create("j1")
    desk("job", "step", "j1")
    data = (desk.job() / "state.json").read_bytes()
    if damage == "sealed":  # its checksum holds, and still it is nothing that Logist wrote
        restate({"rank": "first"})(desk)
    else:
        damaged = data[:99] if damage == "cut" else data.replace(b'"rank": 0', b'"rank": 7')
        (desk.job() / "state.json").write_bytes(damaged)
    (desk.job() / "damaged-on-purpose").touch()
    remedy = "logist doctor --fix"
    runs = [
        desk(*words, "--json") for words in (("job", "list"), ("doctor",), ("job", "verify", "j1"), ("run",))
    ]
    runs += [desk("job", name, "j1", "--json") for name in READERS]
    fixes = {each["fix"] for ran in runs for each in ran.json["diagnostics"] if each["fix"]}
    fixes |= {check["fix"] for check in runs[1].json["data"]["checks"] if check["check"] == "job j1"}
    assert fixes == {remedy}
    assert f"to repair it: {remedy}\n" in desk("job", "verify", "j1").err
    assert desk("doctor", "--fix").code == 0
    assert (desk.job() / "state.json").read_bytes() == data
