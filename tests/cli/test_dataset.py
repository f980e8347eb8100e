"""`logist job export --dataset`: a JSON line for each interaction, of many jobs."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from logist.core.history import dataset
from logist.resources import find_resource
from tests.cli.desk import Desk, answer, command
from tests.cli.test_json import schemas
from tests.cli.test_stats import history
from tests.support import ROOT, Ran

FIXTURES = ROOT / "fixtures"
KEY = "sk-" + "proj-aB3dE6gH9jK2mN5pQ8sT"
Json = dict[str, Any]
SHARE_IT = "prompts and answers are not redacted; to share the data set, use --redact\n"


def lines(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def exported(desk: Desk, *args: str) -> list[Json]:
    ran = desk("export", "--dataset", *args)
    assert ran.code == 0, ran.err
    return lines(ran.out)


@pytest.fixture
def jobs(desk: Desk) -> Desk:
    """The job `j1`, done and reviewed, and `f1`, forked from it before the review."""
    wrote = command(summary="Wrote it for ada.", evidence_files=["a.txt"])
    desk.script(
        answer(wrote, files={"a.txt": "a"}, usage={"cost_cents": 3, "input_tokens": 100}),
        answer("It is fine.", usage={"cost_cents": 2}),
    )
    desk.create("j1", "--title", "Größe")
    desk("job", "run", "j1")
    desk("job", "resubmit", "j1", "--review", "--note", "Answer in JSON.")
    assert desk("job", "fork", "j1", "--at", "2", "--id", "f1").code == 0
    desk("job", "poststep", "f1", "--response-string", command(summary="Good."))
    return desk


def leaky(desk: Desk, name: str = "leaky") -> Path:
    """A recorded job, with a secret in its second answer."""
    said = {"actions": ["COMPLETED"], "raw_response": f"The key is {KEY}"}
    return history(desk.place / name, {"state_after": "PENDING"}, {"response": said}).parent


def test_a_line_for_each_interaction(jobs: Desk) -> None:
    before = jobs.tree()
    ran = jobs("export", "--dataset", "j1")
    assert (ran.code, ran.err) == (0, f"{SHARE_IT}4 interactions from 1 history\n")
    found, recorded = lines(ran.out), jobs.history()
    assert [each["sequence"] for each in found] == [1, 2, 3, 4]
    assert [each["kind"] for each in found] == ["create", "ask", "ask", "resubmit"]
    for line, entry in zip(found, recorded, strict=True):
        assert list(line) == list(dataset.LINE)
        shared = set(dataset.RECORDED) - {"request", "response"}
        assert {name: line[name] for name in shared} == {name: entry.get(name) for name in shared}
    create, done, review, _ = found
    assert (create["request"], create["response"], create["role"], create["outcome"]) == (None,) * 4
    assert (done["request"], done["response"]) == (recorded[1]["request"], recorded[1]["response"])
    assert (done["role"], done["phase"], done["outcome"], done["job"]) == (
        "Worker",
        "doer",
        "completed",
        "j1",
    )
    assert done["model"] == "scripted/grok-code-fast-1"
    assert (done["usage"]["cost_cents"], done["stuck"]) == (3, None)
    prompt = done["request"]["prompt"]
    assert {each["source"] for each in done["request"]["parts"]} >= {"contract", "role:Worker", "task"}
    assert "Do it." in prompt
    assert (review["outcome"], review["stuck"]["kind"]) == ("stuck", "agent")
    assert jobs.tree() == before


def test_what_a_fork_has_of_another_job_is_written_once(jobs: Desk) -> None:
    found = exported(jobs)
    assert [(each["job"], each["sequence"]) for each in found] == [
        ("f1", 3),
        ("f1", 4),
        *(("j1", number) for number in (1, 2, 3, 4)),
    ]
    assert (found[0]["command"]["from"], found[0]["command"]["at"], found[1]["simulated"]) == ("j1", 2, True)
    assert exported(jobs, "f1", "j1", "f1", ".logist/jobs/j1") == found


def test_what_an_imported_job_has_of_its_history_is_written_once(jobs: Desk) -> None:
    assert jobs("job", "export", "j1", "--fixture", "shared").code == 0
    assert jobs("job", "import", "shared/jobHistory.json", "--id", "i1").code == 0
    found = [each for each in exported(jobs, "shared", "i1") if each["kind"] == "ask"]
    assert [(each["job"], each["sequence"]) for each in found] == [("shared", 2), ("shared", 3)]


def test_it_has_the_runs_and_the_cost_of_the_statistics(desk: Desk) -> None:
    found = exported(desk, str(FIXTURES))
    told = desk("stats", str(FIXTURES), "--json").json["data"]
    runs = [each for each in found if each["outcome"] and not each["simulated"]]
    (total,) = [each for each in told["totals"] if not each["simulated"]]
    assert len({each["job"] for each in found}) == told["histories"] > 10
    for outcome in ("completed", "retry", "stuck", "unanswered"):
        assert sum(each["outcome"] == outcome for each in runs) == total[outcome], outcome
    cents = sum(each["usage"]["cost_cents"] * 10**6 + each["usage"]["cost_microcents"] for each in runs)
    back = sum((each["command"] or {}).get("released_microcents", 0) for each in found)
    assert cents - back == total["cost_cents"] * 10**6 + total["cost_microcents"]


@pytest.mark.parametrize("redact", [(), ("--redact",)], ids=["plain", "redacted"])
def test_every_line_fits_the_schema(jobs: Desk, redact: tuple[str, ...]) -> None:
    schema = json.loads(find_resource("schemas", "dataset.json").read_text("utf-8"))
    shapes = Resource.from_contents(schemas()["shapes"])
    known = Registry().with_resources([("cli/shapes.json", shapes), ("shapes.json", shapes)])
    validator = jsonschema.Draft202012Validator(schema, registry=known)
    found = [*exported(jobs, *redact), *exported(jobs, str(FIXTURES), *redact)]
    assert len(found) > 50
    for line in found:
        validator.validate(line)
        assert list(line) == list(schema["properties"])


def test_the_page_explains_every_field() -> None:
    page = (ROOT / "docs" / "fixtures.md").read_text("utf-8").partition("## A data set")[2]
    cells = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `")]
    assert sorted(re.findall("`([a-z_]+)`", " ".join(cells))) == sorted(dataset.LINE)


def test_nothing_private_is_in_a_redacted_line(jobs: Desk) -> None:
    jobs.settings("redact: {patterns: ['Gr\\w+', 'Wrote it']}\n")
    ran = jobs("export", "--dataset", "--redact")
    assert (ran.code, ran.err) == (0, "6 interactions from 2 histories\n")
    for word in ("ada.", "Größe", "Gr\\u00f6", "Wrote it", str(jobs.place)):
        assert word not in ran.out, word
    found = lines(ran.out)
    assert {each["steward"]["name"] for each in found if each["steward"]}.isdisjoint({"ada"})
    assert [each["outcome"] for each in found] == [None, "completed", None, "completed", "stuck", None]
    assert str(jobs.place) not in jobs("export", "--dataset").out


def test_a_path_names_the_job_without_where_it_lies(jobs: Desk) -> None:
    assert {each["job"] for each in exported(jobs, str(jobs.job()))} == {".logist/jobs/j1"}


def test_a_secret_leaves_its_history_out_whole(jobs: Desk) -> None:
    leaky(jobs)
    ran = jobs("export", "--dataset", "leaky", "j1")
    assert ran.code == 8
    assert {each["job"] for each in lines(ran.out)} == {"j1"}
    assert (
        "leaky: skipped: the output would contain a secret: interaction 2, response.raw_response" in ran.err
    )
    assert "(use --redact to remove it)" in ran.err
    assert KEY not in ran.out + ran.err
    redacted = jobs("export", "--dataset", "leaky", "--redact")
    assert (redacted.code, len(lines(redacted.out))) == (0, 2)
    assert KEY not in redacted.out


def test_a_damaged_history_stops_no_other(jobs: Desk) -> None:
    leaky(jobs)
    file = jobs.job("f1") / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b"Good.", b"Bad! "))
    ran = jobs("export", "--dataset", "leaky", "f1", "j1")
    assert ran.code == 10
    assert [(each["job"], each["sequence"]) for each in lines(ran.out)] == [("j1", n) for n in (1, 2, 3, 4)]
    assert "f1: skipped: " in ran.err
    cut = jobs("export", "--dataset", "-o", "d.jsonl", "f1")
    assert (cut.code, cut.out) == (10, "0 interactions from 0 histories\nno file was written\n")
    assert not (jobs.place / "d.jsonl").exists()


def test_a_file_is_whole_and_replaced_only_by_force(jobs: Desk) -> None:
    file = jobs.place / "d.jsonl"
    ran = jobs("export", "--dataset", "j1", "--output", "d.jsonl")
    assert (ran.code, ran.out) == (0, "4 interactions from 1 history\nfile: d.jsonl\n")
    assert file.read_text("ascii") == jobs("export", "--dataset", "j1").out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refused = jobs("export", "--dataset", "-o", "d.jsonl")
    assert (refused.code, refused.out) == (8, "")
    assert "file already exists (use --force to replace it)" in refused.err
    assert len(lines(file.read_text("ascii"))) == 4
    data = jobs("export", "--dataset", "-o", "d.jsonl", "--force", "--json").json["data"]
    assert data == {"path": "d.jsonl", "histories": 2, "left_out": 0, "interactions": 6, "redacted": False}
    assert len(lines(file.read_text("ascii"))) == 6
    assert sorted(name for name in os.listdir(jobs.place) if "d.jsonl" in name) == ["d.jsonl"]


def test_a_reader_may_leave(jobs: Desk) -> None:
    with jobs.started("export", "--dataset", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
        assert started.stdout is not None
        started.stdout.close()
        assert started.wait(60) == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "use either --fixture DIR or --dataset"),
        (["--fixture", "f", "--dataset"], "use either --fixture DIR or --dataset"),
        (
            ["j1", "f1", "--fixture", "f"],
            "--fixture accepts only one job (to export several jobs: --dataset)",
        ),
        (["--fixture", "f", "--output", "d"], "--output requires --dataset"),
        (["--dataset", "nope"], "no history found at nope"),
        (["--dataset", "--output", ".logist/jobs/d.jsonl"], "can't write a data set to the jobs directory"),
        (["--dataset", "--json"], "standard output is used by the data set"),
    ],
)
def test_what_is_no_data_set(jobs: Desk, args: list[str], message: str) -> None:
    before = jobs.tree()
    ran: Ran = jobs("export", *args)
    assert ran.code == 2
    assert message in ran.err + ran.out
    assert jobs.tree() == before
