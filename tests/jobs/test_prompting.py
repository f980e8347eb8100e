"""What a step tells its agent: the parts that the role asks for, and no others; and what preview shows, step sends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from logist.core.machine.limits import Halt
from logist.core.model import Kind
from logist.core.step.step import Idle
from logist.jobs.archive import archive_drift, archive_replay
from logist.jobs.turn import next_request
from logist.jobs.turn.next_request import Choice
from logist.resources import find_resource
from logist.roles import load_roles
from tests.jobs.bench import Bench, answer, command
from tests.jobs.conftest import MakeBench
from tests.support import git

FIRST = ["role:Poet", "permissions", "task", "step", "limits"]


def poet(bench: Bench, **fields: Any) -> None:
    """A role of that name in the project."""
    roles = bench.project.home / "roles"
    roles.mkdir(exist_ok=True)
    role = {"name": "Poet", "description": "d", "instructions": "Rhyme.", "llm_model": "m", **fields}
    (roles / "Poet.json").write_text(json.dumps(role), "utf-8")
    bench.change(roles=load_roles([find_resource("roles"), roles]))


def write(bench: Bench, **files: str) -> None:
    for name, text in files.items():
        place = bench.folder() / "workspace" / name.replace("__", "/").replace("_", ".")
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, "utf-8")


def sources(bench: Bench) -> list[str]:
    _, plan = next_request.preview_request(bench.project, "j", Choice())
    assert not isinstance(plan, Halt | Idle)
    return [part.source for part in plan.request.parts]


def last_ask(bench: Bench) -> Any:
    return [entry for entry in bench.history() if entry.kind == "ask"][-1]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (None, ["listing"]),
        ([], []),
        (["repo_structure"], ["repo_structure"]),
        (["relevant_files"], ["relevant_files", "relevant:poem.txt"]),
        (
            ["relevant_files", "repo_structure"],
            ["repo_structure", "relevant_files", "relevant:poem.txt"],
        ),
        (["related_tasks", "session_context", "prior_attempts"], []),
    ],
)
def test_a_role_is_told_what_it_asks_for(bench: MakeBench, asked: list[str] | None, told: list[str]) -> None:
    one = bench([answer()])
    poet(one, **({} if asked is None else {"context_requirements": asked}))
    one.create(prompt="Mend poem.txt.", role="Poet", review=False)
    write(one, poem_txt="roses\n", other_txt="violets\n")
    assert sources(one) == [*FIRST, *told, "contract"]
    _, plan = next_request.preview_request(one.project, "j", Choice())
    one.step()
    sent = last_ask(one).request
    assert not isinstance(plan, Halt | Idle)
    assert sent.prompt == plan.request.prompt
    assert ("context" in sent.metadata) is (asked is not None)


def test_the_text_of_relevant_files_is_limited_but_not_that_of_files_of_the_job(bench: MakeBench) -> None:
    one = bench([answer()], {"context": {"relevant_files_tokens": 10}})
    poet(one, context_requirements=["relevant_files"])
    one.create(prompt="Mend poem.txt and song.txt.", role="Poet", review=False, files=["own.txt"])
    write(one, poem_txt="rose\n" * 7, song_txt="rose\n", own_txt="rose\n" * 2_000)
    assert set(sources(one)) == {*FIRST, "relevant_files", "relevant:song.txt", "file:own.txt", "contract"}
    _, plan = next_request.preview_request(one.project, "j", Choice())
    assert not isinstance(plan, Halt | Idle)
    assert "- poem.txt: named in the task (text not shown" in plan.request.prompt
    assert "rose\n" * 2_000 in plan.request.prompt


def test_a_role_is_told_of_earlier_runs_and_other_jobs_if_it_asks(bench: MakeBench) -> None:
    retry = [answer(command("RETRY", summary=f"Try {number} failed.")) for number in (1, 2)]
    one = bench([*retry, answer(), answer()])
    poet(one, context_requirements=["prior_attempts", "session_context", "related_tasks"])
    one.create("other", title="Water the roses", tags=["garden"], review=False)
    one.step("other")
    one.create(title="Plant roses", tags=["garden"], role="Poet", review=False)
    one.step()
    one.step()
    one.step()
    prompt = last_ask(one).request.prompt
    attempts, last = prompt.split("## Earlier attempts")[1], prompt.split("## What happened before")[1]
    assert "Try 1 failed." in attempts
    assert "Try 2 failed." not in attempts
    assert "Try 2 failed." in last
    assert "- other: Water the roses (PENDING, Worker)" in prompt.split("## Other jobs in progress")[1]
    assert "- other: Water the roses (PENDING; tags: garden)" in prompt.split("## Related tasks")[1]


@pytest.mark.parametrize(("limit", "told"), [(0, []), (1, ["prior_attempts"])])
def test_the_config_limits_the_earlier_runs_in_a_prompt(
    bench: MakeBench, limit: int, told: list[str]
) -> None:
    one = bench([answer(command("RETRY"))] * 2, {"context": {"prior_attempts_limit": limit}})
    poet(one, context_requirements=["prior_attempts"])
    one.create(role="Poet", review=False)
    one.step()
    one.step()
    assert [source for source in sources(one) if source == "prior_attempts"] == told


def test_a_template_is_sent_as_it_was_rendered(bench: MakeBench) -> None:
    one = bench([answer()], {"context": {"custom_instructions": "Be kind."}})
    template = "# {{.Title}} ({{.ID}})\n{{.RepoContext}}\n{{.CustomInstructions}}\n"
    poet(one, prompt_template=template, context_requirements=["repo_structure"])
    one.create(prompt="Mend it.", role="Poet", review=False)
    write(one, poem_txt="roses\n")
    one.step()
    sent = last_ask(one).request
    user = sent.prompt[sent.metadata["user_start"] :]
    assert user.startswith("# Mend it. (j)\npoem.txt\nBe kind.\n\n\n## Your part")


LARGE = (
    "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(400))
    + "def rhyme():\n    return 1\n"
)
PARTS = "parts of a file of 1,602 lines, with line numbers; read the file for the rest"


@pytest.mark.parametrize(
    "template", [None, "{{range .RelevantFiles}}{{.Path}}: {{.Reason}}\n{{.Content}}\n{{end}}"]
)
def test_of_large_files_parts_are_sent_recorded_and_replayed(bench: MakeBench, template: str | None) -> None:
    one = bench([answer()], {"context": {"max_file_bytes": 2_000}})
    poet(one, prompt_template=template, context_requirements=["relevant_files"])
    one.create(prompt="Let rhyme() be 2.", files=["listed.py"], role="Poet", review=False)
    write(one, listed_py=LARGE, found_py=LARGE)
    one.step()
    sent = last_ask(one).request.prompt
    part = "1601  def rhyme():\n1602      return 1"
    assert f"## File: listed.py\n\n({PARTS})\n\n```\n... " in sent
    assert f"rhyme ({PARTS})" in sent
    assert sent.count(part) == 2
    assert sent.count("    return 77") == 0
    assert len(sent) < 12_000
    drifts = archive_drift.build_drift_finder(one.project)
    replayed = archive_replay.replay_job(one.project, one.project.open_job("j"), prompts=drifts)
    assert (replayed.differences, replayed.drifts) == ((), ())


def test_the_structure_has_excerpts_of_key_files(bench: MakeBench) -> None:
    one = bench([answer()])
    poet(one, context_requirements=["repo_structure"])
    one.create(prompt="Rhyme.", role="Poet", review=False)
    write(one, README_md="# Poems\n\nThey rhyme.\n", poem_txt="roses\n")
    one.step()
    sent = last_ask(one).request.prompt
    assert (
        "## Repository structure\n\nREADME.md\npoem.txt\n\nExcerpts of key files:\n\nREADME.md:\n```\n# Poems\n\n"
        "They rhyme.\n```\n\n"
    ) in sent
    drifts = archive_drift.build_drift_finder(one.project)
    replayed = archive_replay.replay_job(one.project, one.project.open_job("j"), prompts=drifts)
    assert (replayed.differences, replayed.drifts) == ((), ())


def test_a_structure_of_before_the_excerpts_still_replays(bench: MakeBench) -> None:
    one = bench([answer()])
    poet(one, context_requirements=["repo_structure"])
    one.create(prompt="Rhyme.", role="Poet", review=False)
    write(one, poem_txt="roses\n")
    one.step()
    assert "Excerpts" not in last_ask(one).request.prompt
    write(one, README_md="# Poems\n")
    drifts = archive_drift.build_drift_finder(one.project)
    replayed = archive_replay.replay_job(one.project, one.project.open_job("j"), prompts=drifts)
    assert (replayed.differences, replayed.drifts) == ((), ())


def test_what_is_excluded_is_not_shown(bench: MakeBench) -> None:
    named = answer(command("RETRY", ["dist/x.js", "kept.txt"]))
    one = bench([named, answer()], {"context": {"excluded_paths": ["dist"]}})
    one.create(review=False, files=["dist/y.js"])
    write(one, dist__x_js="xx\n", dist__y_js="yy\n", kept_txt="kk\n")
    one.step()
    one.step()
    prompt = last_ask(one).request.prompt
    assert "- kept.txt" in prompt.split("## Files in the workspace")[1]
    assert "- dist/" not in prompt.split("## Files in the workspace")[1]
    assert "## File: dist/x.js\n\n(not shown: context.excluded_paths)" in prompt
    assert "## File: dist/y.js\n\n```\nyy\n```" in prompt  # a person wants it shown


def test_evidence_that_is_confidential_or_git_ignored_is_named_only(bench: MakeBench) -> None:
    made = {
        name: f"text of {name}\n" for name in (".env", "keys/a.pem", "out/log.txt", "out/kept.txt", "in.txt")
    }
    ignoring = {
        ".gitignore": "out/*\n!out/kept.txt\n*.tmp\n",
        "a.tmp": "text of a.tmp\n",
        "b.tmp": "text of b\n",
    }
    retry = answer(command("RETRY", [*made, "a.tmp", "b.tmp"]), files={**made, **ignoring})
    one = bench([retry, answer()])
    one.create(review=False, files=["keys/a.pem", "b.tmp"])
    one.step()
    one.step()
    prompt = last_ask(one).request.prompt
    for name, shown in {
        ".env": "(may contain secrets: not shown)",
        "out/log.txt": "(git-ignored: not shown)",
        "a.tmp": "(git-ignored: not shown)",
        "out/kept.txt": "```\ntext of out/kept.txt\n```",
        "in.txt": "```\ntext of in.txt\n```",
        "keys/a.pem": "```\ntext of keys/a.pem\n```",  # a person wants it shown
        "b.tmp": "```\ntext of b\n```",
    }.items():
        assert f"## File: {name}\n\n{shown}" in prompt
    assert "text of .env" not in prompt


def test_a_patch_shows_no_place_of_keys(bench: MakeBench) -> None:
    one = bench([answer(files={".env": "KEY=plain\n", "a.txt": "plain text\n"}), answer()])
    one.create()
    one.step()
    one.step()
    changed = last_ask(one).request.prompt.split("## What was changed")[1]
    assert "+plain text\n" in changed
    assert "[changed, but not shown: .env]" in changed
    assert "KEY=plain" not in changed


@pytest.mark.parametrize("fields", [{}, {"context_requirements": ["repo_structure"]}])
@pytest.mark.parametrize(
    ("file", "told"),
    [
        (None, "The workspace is empty."),
        (
            "dist__x_js",
            "No files are listed: all files of the workspace are git-ignored, excluded, or in a cache.",
        ),
    ],
)
def test_a_workspace_is_called_empty_only_if_it_is(
    bench: MakeBench, fields: dict[str, Any], file: str | None, told: str
) -> None:
    one = bench([answer()], {"context": {"excluded_paths": ["dist"]}})
    poet(one, **fields)
    one.create(role="Poet", review=False)
    write(one, **({file: "xx\n"} if file else {}))
    _, plan = next_request.preview_request(one.project, "j", Choice())
    assert not isinstance(plan, Halt | Idle)
    assert f"\n\n{told}" in plan.request.prompt


def test_a_reviewer_sees_the_patch(bench: MakeBench) -> None:
    done = answer(files={"poem.txt": "roses\n", "dist/x.js": "xx\n"})
    one = bench([done, answer()])
    one.create()
    one.step()
    one.step()
    prompt = last_ask(one).request.prompt
    assert "+roses\n" in prompt.split("## What was changed")[1]
    assert "- created: dist/x.js" in prompt
    assert "+xx" not in prompt


def test_a_template_that_can_not_be_filled_is_told(bench: MakeBench) -> None:
    one = bench([answer()])
    poet(one, prompt_template="{{.Title}} {{output.verse}}")
    one.create(role="Poet")
    one.step()
    assert (
        "role 'Poet': prompt_template: line 1, column 12: `{{output.verse}}` not found in the data"
        in one.said[0]
    )


# --- later attempts ---


def test_l62_an_attempt_after_retry_is_shown_what_the_last_one_wrote(bench: MakeBench) -> None:
    b = bench(
        [answer("I tried the lexer.\n\nIt has no tests.\n" + command("RETRY", summary="No.")), answer()]
    )
    b.create()
    b.step()
    b.step()
    first, second = (entry.request.prompt for entry in b.history()[1:])
    assert "## What the last attempt wrote" not in first
    written = second.partition("## What the last attempt wrote")[2].partition("##")[0]
    assert "I tried the lexer.\n\nIt has no tests." in written
    assert '"action"' not in written
    replayed = archive_replay.replay_job(
        b.project, b.project.open_job("j"), prompts=archive_drift.build_drift_finder(b.project)
    )
    assert (replayed.differences, replayed.drifts) == ((), ())


def test_it_is_shortened_where_there_is_no_room(bench: MakeBench) -> None:
    b = bench(
        [answer("word " * 50_000 + "\n" + command("RETRY", summary="No.")), answer()],
        settings={"context": {"budget_tokens": 3_000}},
    )
    b.create()
    b.step()
    b.step()
    prompt = b.history()[-1].request.prompt
    assert "No." in prompt
    assert len(prompt.encode()) < 3 * 3_000


def test_an_answer_without_other_words_adds_nothing(bench: MakeBench) -> None:
    b = bench([answer(command("RETRY", summary="No.")), answer()])
    b.create()
    b.step()
    b.step()
    assert "## What the last attempt wrote" not in b.history()[-1].request.prompt


def test_l62_later_attempts_have_their_own_temperature_and_model(bench: MakeBench) -> None:
    b = bench([answer(command("RETRY", summary="No.")) for _ in range(4)])
    later = [{"temperature": 0.7}, {"temperature": 0.9, "llm_model": "gemini-2.5-flash"}]
    poet(b, base="Worker", llm_model="grok-code-fast-1", temperature=0.1, later_attempts=later)
    b.create(role="Poet", limits={"max_attempts": 5})
    for _ in range(4):
        b.step()
    asked = [entry.request.metadata for entry in b.history() if entry.kind is Kind.ASK]
    assert [each["temperature"] for each in asked] == [0.1, 0.7, 0.9, 0.9]
    models = [each["model"] for each in asked]
    assert models == ["grok-code-fast-1", "grok-code-fast-1", "gemini-2.5-flash", "gemini-2.5-flash"]
    replayed = archive_replay.replay_job(
        b.project, b.project.open_job("j"), prompts=archive_drift.build_drift_finder(b.project)
    )
    assert (replayed.differences, replayed.drifts) == ((), ())


@pytest.mark.parametrize(
    "wrong", [[{"temperature": 3}], [{"llm_model": ""}], [{"model": "x"}], "hot", [{"temperature": True}]]
)
def test_later_attempts_that_can_not_be_used_are_an_error(tmp_path: Path, wrong: object) -> None:
    role = {"name": "R", "description": "d", "instructions": "i", "llm_model": "m", "later_attempts": wrong}
    (tmp_path / "R.json").write_text(json.dumps(role))
    assert "later_attempts" in load_roles([tmp_path]).broken["R"].message


def test_a_prompt_says_what_was_not_searched(bench: MakeBench) -> None:
    """Whatever is in a workspace: the step is done, what can be searched is searched, and the rest is named."""
    one = bench([answer()])
    poet(one, context_requirements=["relevant_files"])
    one.create(prompt="Mend the sonnet.", role="Poet", review=False)
    write(
        one, poem_txt="sonnet\n", _env="sonnet=1\n", module__poem_txt="sonnet\n", module___git="gitdir: x\n"
    )
    root = one.workspace()
    (root / "line.js").write_bytes(b"sonnet " * 1_500_000)
    (root / "random").write_bytes(bytes(range(1, 256)) * 200 + b" sonnet")
    (root / "latin.txt").write_bytes("Sonnet für alle: größe".encode("latin-1"))
    (root / os.fsdecode(b"sonnet-\xff.txt")).write_text("sonnet")
    (root / "picture.png").write_bytes(b"\x89PNG\0sonnet")
    (root / "zeros").write_bytes(b"\0sonnet" * 99)
    (root / "loop").symlink_to(".")
    (root / "pool").symlink_to("loop/pool")
    os.mkfifo(root / "sonnet.pipe")
    one.step()
    prompt = last_ask(one).request.prompt
    listed = prompt.split("## Files that may be relevant\n\n")[1].split("\n\n## ")[0]
    assert listed == (
        "- poem.txt: contains sonnet\n\nNot searched: 1 file over 2.0 MB, 1 binary file, 1 file that may contain secrets, "
        "2 links, 1 other git repository. Not listed: 2 files that are not UTF-8 text."
    )
    assert archive_replay.replay_job(one.project, one.project.open_job("j")).differences == ()


def test_a_repository_without_commits_has_nothing_to_search(bench: MakeBench, tmp_path: Path) -> None:
    one = bench([answer()])
    poet(one, context_requirements=["relevant_files", "repo_structure"])
    git(tmp_path, "init", "--quiet", "empty")
    one.create(prompt="Mend the sonnet.", role="Poet", review=False, repo=str(tmp_path / "empty"))
    one.step()
    prompt = last_ask(one).request.prompt
    assert "The workspace is empty." in prompt
    assert "Files that may be relevant" not in prompt
