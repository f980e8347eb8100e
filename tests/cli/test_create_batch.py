"""`logist job create --batch`: all jobs of a file, or none."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk, answer


def write_lines(desk: Desk, *lines: object, name: str = "batch.jsonl") -> str:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (desk.place / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return name


def left(desk: Desk) -> set[str]:
    return {path.name for path in desk.jobs.iterdir()}


def test_ids_are_printed_in_the_order_of_the_lines_and_every_job_is_an_ordinary_one(desk: Desk) -> None:
    file = write_lines(
        desk,
        {"id": "z", "prompt": "Do z.", "limits": {"cost_threshold": 7}, "rank": 3},
        {"title": "A heading", "prompt": "Do it."},
        {"id": "a", "prompt": "Do a.", "tags": ["x"], "model": None},
    )
    ran = desk("job", "create", "--batch", file)
    assert ran.code == 0, ran.err
    first, second, third = ran.out.splitlines()
    assert (first, third) == ("z", "a")
    assert second.startswith("a-heading-")
    assert left(desk) == {first, second, third}
    assert desk.state("z")["limits"]["cost_threshold"] == 7
    assert (desk.job("z") / "job.yaml").read_text().startswith("id: z\n")
    desk.script(answer(files={"a.txt": "a"}), answer())
    for job_id in (first, second, third):
        assert desk("job", "run", job_id).code == 11
        assert desk("job", "verify", job_id).code == 0
        assert desk("job", "replay", job_id).code == 0


def test_options_override_the_fields_of_every_line(desk: Desk) -> None:
    file = write_lines(
        desk, {"id": "a", "prompt": "x", "limits": {"max_attempts": 9}}, {"id": "b", "prompt": "y"}
    )
    options = ["--draft", "--tag", "t", "--cost-threshold", "5", "--prompt", "Same."]
    rows = desk("job", "create", "--batch", file, *options, "--json").json["data"]["jobs"]
    assert [(row["job"], row["status"], row["title"]) for row in rows] == [
        ("a", "DRAFT", "Same."),
        ("b", "DRAFT", "Same."),
    ]
    assert [desk.state(job)["limits"]["cost_threshold"] for job in "ab"] == [5, 5]
    assert desk.state("a")["limits"]["max_attempts"] == 9
    assert desk.state("b")["tags"] == ["t"]


def test_standard_input_may_have_a_byte_order_mark_and_windows_line_ends(desk: Desk) -> None:
    ran = desk(
        "job",
        "create",
        "--batch",
        "-",
        stdin='\ufeff{"id": "a", "prompt": "x"}\r\n{"id": "b", "prompt": "y"}',
    )
    assert (ran.code, ran.out) == (0, "a\nb\n")


GOOD = {"prompt": "x"}


@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        ((GOOD, {"promt": "x"}), 5, "batch.jsonl:2: unknown key `promt`; no job was created (did you mean `prompt`?)"),
        ((GOOD, GOOD, '{"prompt": "x"'), 5, "batch.jsonl:3:15: invalid JSON: Expecting ',' delimiter"),
        (('[{"prompt": "x"},',), 5, "batch.jsonl:1:18: invalid JSON: Expecting value; no job was created (write one JSON object per line)"),
        ((GOOD, "", GOOD), 5, "batch.jsonl:2: the line is empty; no job was created"),
        ((GOOD, " \t"), 5, "batch.jsonl:2: the line is empty"),
        ((GOOD, '{"prompt": "a", "prompt": "b"}'), 5, "batch.jsonl:2:17: duplicate key `prompt`"),
        ((GOOD, '{"limits": {"max_attempts": "2"}, "prompt": "x"}'), 5, "batch.jsonl:2: `limits.max_attempts` must be"),
        ((GOOD, '["prompt"]'), 5, "batch.jsonl:2: must be a mapping of keys to values"),
        ((GOOD, '{"prompt": "\udcff"}'), 5, "batch.jsonl:2:13: not valid UTF-8"),
        ((GOOD, '{"prompt": "\\ud800"}'), 5, "batch.jsonl:2:12: `prompt` contains half of a surrogate pair"),
        ((GOOD, '{"rank": NaN, "prompt": "x"}'), 5, "batch.jsonl:2"),
        ((GOOD, '{"prompt": "' + "x" * (1 << 20) + '"}'), 5, "batch.jsonl:2: must not be longer than 1,048,576 bytes"),
        ((GOOD, '{"input": ' + "[" * 100_000 + "]" * 100_000 + "}"), 5, "error: batch.jsonl:2: nested more than 64 levels deep"),
        ((GOOD, '{"input": ' + "[" * 70 + "]" * 70 + "}"), 5, "error: batch.jsonl:2:75: nested more than 64 levels deep"),
        ((GOOD, {"title": "x"}), 2, "batch.jsonl:2: prompt: a job needs a prompt; no job was created"),
        ((GOOD, {"prompt": "x", "role": "Nobody"}), 2, "batch.jsonl:2: unknown role `Nobody`"),
        ((GOOD, {"prompt": "x", "repo": "nowhere"}), 2, "batch.jsonl:2: repo: nowhere is not a git repository"),
        ((GOOD, {"prompt": "x", "workflow": "nowhere"}), 2, "batch.jsonl:2: workflow `nowhere` not found"),
        (({"id": "a", **GOOD}, GOOD, {"id": "a", **GOOD}), 5, "batch.jsonl:3: duplicate id 'a': already on line 1"),
        ((GOOD, {"id": "old", **GOOD}), 8, "batch.jsonl:2: job 'old' already exists; no job was created"),
        ((GOOD, {"id": "../x", **GOOD}), 5, "batch.jsonl:2: `id`"),
        ((), 5, "batch.jsonl: the batch is empty; no job was created"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_one_bad_line_creates_nothing_and_is_named(
    desk: Desk, lines: tuple[object, ...], code: int, message: str
) -> None:
    desk.create("old")
    ran = desk("job", "create", "--batch", write_lines(desk, *lines))
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert left(desk) == {"old"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch", "nowhere.jsonl"], "nowhere.jsonl: can't read the batch: No such file or directory"),
        (["--batch", "."], "can't read the batch: Is a directory"),
        (["--batch", "batch.jsonl", "--id", "x"], "can't use --id with --batch"),
        (["--batch", "batch.jsonl", "spec.yaml"], "can't use SPEC with --batch"),
        (["--prompt", "x", "--set", "a=b"], "--set: --set is only for a template"),
        (["--prompt", "x", "--set", "limits.cost_threshold=5"], "such as --cost-threshold CENTS"),
    ],
)
def test_options_that_contradict_each_other(desk: Desk, options: list[str], message: str) -> None:
    write_lines(desk, GOOD)
    ran = desk("job", "create", *options)
    assert (ran.code, left(desk)) == (2, set())
    assert message in ran.err


def test_jobs_of_a_batch_share_the_packs_of_their_repository(desk: Desk) -> None:
    support.make_repository(desk.place / "repo")
    file = write_lines(desk, *({"id": f"j{number}", **GOOD} for number in range(3)))
    assert desk("job", "create", "--batch", file, "--repo", "repo").code == 0
    desk("job", "create", "--id", "later", "--prompt", "x", "--repo", "repo")
    packs = [
        next((desk.job(each) / "git" / "objects" / "pack").glob("*.pack"))
        for each in ("j0", "j1", "j2", "later")
    ]
    assert len({path.stat().st_ino for path in packs}) == 1
    assert {path.name for path in desk.jobs.iterdir() if path.name.startswith(".")} == {".packs"}


def test_hooks_run_for_each_job_when_all_are_there(desk: Desk) -> None:
    user = desk.place / "user" / "logist"
    user.mkdir(parents=True)
    command = "echo $LOGIST_JOB_ID $(ls $LOGIST_JOB_DIR/..) >> $LOGIST_JOB_DIR/../../seen"
    (user / "config.yaml").write_text(f"notify: {{approval: '{command}'}}\n")
    (desk.place / "w.yaml").write_text("name: w\nsteps: [{id: a, type: manual, prompt: Do it.}]\n")
    file = write_lines(desk, {"id": "a", "workflow": "w.yaml"}, {"id": "b", "workflow": "w.yaml"})
    ran = desk("job", "create", "--batch", file, env={"XDG_CONFIG_HOME": str(desk.place / "user")})
    assert ran.code == 0, ran.err
    assert (desk.home / "seen").read_text() == "a a b\nb a b\n"
    assert list((desk.jobs / ".notify").iterdir()) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_command_leaves_all_jobs_or_none(desk: Desk, seed: int) -> None:
    desk.create("old")
    file = write_lines(desk, *({"id": f"j{number}", **GOOD} for number in range(6)))
    began = time.monotonic()
    assert (
        desk.process("job", "create", "--batch", write_lines(desk, {"id": "x", **GOOD}, name="one")).code == 0
    )
    seconds = time.monotonic() - began
    process = desk.started("job", "create", "--batch", file)
    time.sleep(seconds * random.Random(seed).uniform(0.5, 2.5))
    process.kill()
    process.wait()
    found = set(desk("job", "list").out.split("\n")) - {""}
    ids = {line.split("\t")[0] for line in found} - {"old", "x"}
    assert len(ids) in (0, 6)
    desk.create("next")
    assert left(desk) == {"old", "x", "next", *ids}


def test_a_batch_that_was_killed_while_its_jobs_got_their_names_can_be_tried_again(desk: Desk) -> None:
    file = write_lines(desk, *({"id": f"j{number}", **GOOD} for number in range(3)))
    assert desk("job", "create", "--batch", file).code == 0
    folder = Path(desk.jobs, ".batches", "0123456789ab")  # as before its last step
    folder.mkdir(parents=True)
    Path(desk.jobs, "j2").rename(folder / "j2")
    inodes = {f"j{number}": Path(desk.jobs, f"j{number}").stat().st_ino for number in range(2)}
    (folder / "unpublished").write_text(json.dumps({**inodes, "j2": (folder / "j2").stat().st_ino}))
    assert desk("job", "list").out == ""
    for command in ("status", "show", "du"):
        ran = desk("job", command, "j0")
        assert (ran.code, ran.out) == (2, "")
        assert "job 'j0' not found" in ran.err
    ran = desk("job", "create", "--batch", file)
    assert (ran.code, ran.out) == (0, "j0\nj1\nj2\n"), ran.err
    assert left(desk) == {"j0", "j1", "j2"}


def test_ctrl_c_leaves_nothing(desk: Desk) -> None:
    repo, pipe = support.make_repository(desk.place / "repo"), desk.place / "pipe"
    os.mkfifo(pipe)
    support.git(repo, "config", "include.path", str(pipe))  # git waits here
    file = write_lines(desk, {"id": "j0", **GOOD}, {"id": "j1", **GOOD, "repo": str(repo)})
    process = desk.started("job", "create", "--batch", file)
    while (writer := support.open_writer(pipe)) is None or not [*desk.jobs.glob(".batches/*/j0")]:
        if writer is not None:  # git was run before the first job was created
            os.close(writer)
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    pipe.unlink()
    os.close(writer)
    assert process.wait(support.CRASHED) == 130
    assert left(desk) == set()


def test_a_terminal_sees_the_ids(desk: Desk) -> None:
    seen = desk.on_terminal("job", "create", "--batch", write_lines(desk, {"id": "a", **GOOD}))
    assert seen.splitlines() == ["a"]


def test_doctor_removes_what_a_killed_batch_has_left(desk: Desk) -> None:
    folder = Path(desk.jobs, ".batches", "0123456789ab")
    folder.mkdir(parents=True)
    (folder / "j1").mkdir()
    old = time.time() - 7 * 86400
    os.utime(folder, (old, old))
    found = desk("doctor")
    assert "warning jobs: .batches/0123456789ab: a batch was left by a killed command" in " ".join(
        found.out.split()
    )
    fixed = desk("doctor", "--fix")
    assert "a batch was left by a killed command: removed" in fixed.out
    assert left(desk) == set()
