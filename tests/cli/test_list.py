"""`logist job list`."""

from __future__ import annotations

import json
import re
import time

import pytest

from logist.core.text.columns import count_columns
from logist.store import JobDir
from tests.cli.desk import Desk, answer, command


def columns(desk: Desk, *args: str) -> list[list[str]]:
    ran = desk("job", "list", *args)
    assert ran.code == 0
    return [line.split("\t") for line in ran.out.splitlines()]


def ids(desk: Desk, *args: str) -> list[str]:
    return [row[0] for row in columns(desk, *args)]


@pytest.fixture
def three(desk: Desk) -> Desk:
    """`new` waits for an agent, `stuck` for a steward, `draft` for its start."""
    desk.script(answer("no JSON here"))
    desk.create("stuck")
    desk("job", "step", "stuck")
    desk.create("new", "--rank", "-1")
    desk.create("draft", "--draft", "--rank", "5")
    return desk


def test_rank_first_then_age_then_id(desk: Desk) -> None:
    for job_id, rank in (("c", "0"), ("a", "0"), ("z", "-2"), ("b", "3")):
        desk.create(job_id, "--rank", rank)
    for job_id, created_at in (("c", "2026-01-01T00:00:00Z"), ("a", "2026-01-02T00:00:00Z")):
        file = desk.job(job_id) / "state.json"
        file.write_text(json.dumps(desk.state(job_id) | {"created_at": created_at}), "utf-8")
    assert ids(desk) == ["z", "c", "a", "b"]


def test_jobs_that_do_a_part_of_another_stand_below_it(desk: Desk) -> None:
    above = {"p--1": "p", "p--1--1": "p--1", "lost--1": "lost"}
    for job_id, rank in (("a", "0"), ("p--1--1", "0"), ("p--1", "0"), ("p", "2"), ("lost--1", "1")):
        desk.create(job_id, "--rank", rank)
        file = desk.job(job_id) / "state.json"
        file.write_text(json.dumps(desk.state(job_id) | {"parent": above.get(job_id)}), "utf-8")
    assert ids(desk) == ["a", "lost--1", "p", "p--1", "p--1--1"]
    file = desk.job("p") / "state.json"
    file.write_text(json.dumps(desk.state("p") | {"parent": "p--1--1"}), "utf-8")
    assert sorted(ids(desk)) == ["a", "lost--1", "p", "p--1", "p--1--1"], "a circle ends too"


def test_columns_in_a_pipe_are_whole(three: Desk) -> None:
    three.create("long", "--title", "A  very\tlong\ntitle " + "x" * 200)
    rows = columns(three)
    assert rows[0] == ["new", "PENDING", "Worker", "$0.00", "Do it."]
    title = "A very long title " + "x" * 200
    assert ["long", "PENDING", "Worker", "$0.00", title] in rows


def test_a_terminal_gets_a_head_and_a_title_that_fits(desk: Desk) -> None:
    desk.create("j1", "--title", "Größe 漢字 " + "x" * 200)
    seen = desk.on_terminal("job", "list", columns=50, env={"NO_COLOR": "1"})
    head, row = seen.splitlines()
    assert head == "ID  STATUS   AGE  ROLE    COST   TITLE"
    assert re.fullmatch(r"j1  PENDING  \ds   Worker  \$0.00  Größe 漢字 x+…", row)


@pytest.mark.parametrize("width", [80, 60, 40, 20])
def test_no_line_is_wider_than_the_terminal(three: Desk, width: int) -> None:
    three.create("fix-login-redirect-after-logout", "--title", "Fix 漢字 " + "x" * 200)
    seen = three.on_terminal("job", "list", columns=width).splitlines()
    assert max(count_columns(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in seen) <= width
    if width >= 60:
        assert any(line.startswith("fix-login-redirect-after-logout  ") for line in seen)
    assert any("invalid answer: "[: width - 3] in line for line in seen), "the reason stands below"


def test_a_terminal_without_unicode_gets_aligned_escapes(desk: Desk) -> None:
    desk("job", "create", "--id", "j1", "--prompt", "x", "--title", f"Größe 漢字 {'x' * 80}")
    desk("job", "create", "--id", "j2", "--prompt", "x", "--title", "Größe")
    for encoding, shown in (("latin-1", "Größe \\u6f22\\u5b57 "), ("ascii", "Gr\\xf6\\xdfe ")):
        env = {"NO_COLOR": "1", "PYTHONIOENCODING": encoding}
        _, row, other = desk.on_terminal("job", "list", columns=60, env=env, encoding=encoding).splitlines()
        assert count_columns(row) <= 60
        assert row.endswith("x~") or encoding == "ascii"
        assert f"  {shown}" in row
        assert row.index("Gr") == other.index("Gr")


def test_a_terminal_says_what_is_stuck_and_what_is_merged(desk: Desk) -> None:
    desk.create()
    desk("job", "list")
    states: dict[str, dict[str, object]] = {
        "a": {"status": "SUCCESS", "source": "/x", "merge": "merged"},
        "b": {"status": "SUCCESS", "source": "/x", "merge": None},
        "c": {"status": "SUCCESS", "source": None},
        "d": {"status": "HALTED_COST", "reason": "Used\x1b[31m up", "updated_at": "2020-01-01T00:00:00Z"},
    }
    for job_id, fields in states.items():
        desk.create(job_id)
        file = desk.job(job_id) / "state.json"
        file.write_text(json.dumps(desk.state(job_id) | fields), "utf-8")
    seen = desk.on_terminal("job", "list", columns=100, env={"NO_COLOR": "1"})
    assert [line.split("  ")[1].strip() for line in seen.splitlines() if line[1:2] == " " and line[0] in "abcd"] == [
        "SUCCESS (merged)", "SUCCESS (not merged)", "SUCCESS", "HALTED_COST",
    ]  # fmt: skip
    assert "\n  Used[31m up\n" in seen
    assert re.search(r"\nd .* \d{4}d +Worker", seen)
    rows = {row["id"]: row for row in desk("job", "list", "--json").json["data"]}
    assert [rows[job_id]["merged"] for job_id in "abcd"] == [True, False, None, None]
    assert rows["d"]["reason"] == "Used\x1b[31m up"


def test_the_status_is_coloured(three: Desk) -> None:
    out = three("job", "list", env={"FORCE_COLOR": "1"}).out
    assert "stuck\t\x1b[31m\x1b[1mSTUCK\x1b[0m\t" in out
    assert "draft\t\x1b[36mDRAFT\x1b[0m\t" in out


def test_the_badge_stands_before_the_role(desk: Desk) -> None:
    (desk.home / "roles").mkdir()
    text = "name: Actor\ndescription: d\ninstructions: i\nllm_model: m\n"
    (desk.home / "roles" / "Actor.yaml").write_text(text, "utf-8")
    desk.create("j1", "--role", "Actor")
    assert columns(desk)[0][2] == "Actor"
    forced = desk("job", "list", env={"FORCE_COLOR": "1"}).out
    assert forced.split("\t")[2] == "\x1b[1m⚡ Actor\x1b[0m"


def test_cost_is_in_dollars(desk: Desk) -> None:
    desk.create()
    desk("job", "poststep", "j1", "--response-string", command(), "--charge", "1234.5")
    assert columns(desk)[0][3] == "$12.345"


def test_filters(three: Desk) -> None:
    three.create("tagged")
    three("job", "config", "tagged", "--set", "tags=[red, blue]")
    assert ids(three, "--stuck") == ["stuck"]
    assert ids(three, "--status", "draft", "--status", "STUCK") == ["stuck", "draft"]
    assert ids(three, "--stuck", "--status", "DRAFT") == ["stuck", "draft"]
    assert ids(three, "--tag", "red") == ["tagged"]
    assert ids(three, "--tag", "red", "--stuck") == []


def set_times(desk: Desk, job_id: str, **values: object) -> None:
    file = desk.job(job_id) / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_jobs_that_changed_since_a_time(desk: Desk) -> None:
    for days, job_id in ((0.1, "new"), (2, "older"), (40, "oldest")):
        desk.create(job_id)
        set_times(
            desk,
            job_id,
            updated_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * 86400)),
        )
    assert ids(desk, "--since", "3h") == ["new"]
    assert ids(desk, "--since", "3d") == ["new", "older"]
    assert ids(desk, "--since", "9w", "--grep", "OLD") == ["older", "oldest"]
    yesterday = time.strftime("%Y-%m-%d", time.localtime(time.time() - 86400))
    assert ids(desk, "--since", yesterday) == ["new"]
    assert ids(desk, "--since", f"{yesterday}T00:00:00+00:00") == ["new"]
    assert ids(desk, "--since", "9999-12-31T23:59:59-23:00") == []
    assert len(ids(desk, "--since", "1969-12-31")) == 3


@pytest.mark.parametrize("when", ["", "yesterday", "3", "-3d", "3 days", "2026-13-01"])
def test_a_time_that_is_none_is_refused(three: Desk, when: str) -> None:
    ran = three("job", "list", "--since", when)
    assert (ran.code, ran.out) == (2, "")
    assert f"--since: not a date, a time or an age: {when!r}" in ran.err


def test_text_is_searched_in_id_title_and_task(desk: Desk) -> None:
    desk.create("one", "--title", "Größe of a Heading", "--prompt", "x")
    desk.create("two", "--prompt", "Repair [a-z]* the\nheading")
    desk.create("three", "--prompt", "x")
    (desk.job("three") / "job.yaml").write_text('description: "Head\\x20ing"\nprompt: x\n')
    assert ids(desk, "--grep", "HEADING") == ["one", "two"]
    assert ids(desk, "--grep", "head ing") == ["three"]
    assert ids(desk, "--grep", "GRÖSSE") == ["one"]
    assert ids(desk, "--grep", "[A-Z]*") == ["two"]
    assert ids(desk, "--grep", "two") == ["two"]
    assert ids(desk, "--grep", "prompt") == []
    (desk.job("three") / "job.yaml").write_text("[broken")
    assert ids(desk, "--grep", "thre") == ["three"]
    assert desk("job", "list", "--grep", "").code == 2


def test_the_order_and_the_number_of_jobs(three: Desk) -> None:
    three.create("aaa", "--rank", "9")
    for number, job_id in enumerate(("aaa", "new", "draft", "stuck")):
        usage = json.loads((three.job(job_id) / "state.json").read_text())["usage"]
        set_times(
            three,
            job_id,
            updated_at=f"2026-01-0{9 - number}T00:00:00Z",
            created_at=f"2026-02-0{number + 1}T00:00:00Z",
            usage={**usage, "cumulative_cost": (3, 1, 1, 0)[number]},
        )
    assert ids(three, "--sort", "rank") == ids(three) == ["new", "stuck", "draft", "aaa"]
    assert ids(three, "--sort", "-rank") == ["aaa", "draft", "stuck", "new"]
    assert ids(three, "--sort", "id") == ["aaa", "draft", "new", "stuck"]
    assert ids(three, "--sort", "created") == ["aaa", "new", "draft", "stuck"]
    assert ids(three, "--sort", "updated") == ["stuck", "draft", "new", "aaa"]
    assert ids(three, "--sort", "cost") == ["stuck", "new", "draft", "aaa"]
    assert ids(three, "--sort=-cost", "--limit", "2") == ["aaa", "draft"]
    assert ids(three, "--limit", "1", "--stuck") == ["stuck"]
    rows = three("job", "list", "--sort", "-id", "--limit", "2", "--json").json["data"]
    assert [row["id"] for row in rows] == ["stuck", "new"]
    assert three("job", "list", "--limit", "0").code == 2


def test_an_unknown_status_is_refused(desk: Desk) -> None:
    ran = desk("job", "list", "--status", "BUSY")
    assert (ran.code, ran.out) == (2, "")
    assert "'BUSY' is not one of" in ran.err


def test_no_jobs(desk: Desk) -> None:
    ran = desk("job", "list")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f'{desk.jobs}: no jobs found (logist job create --prompt "...")\n'


def test_filters_that_no_job_passes(three: Desk) -> None:
    ran = three("job", "list", "--grep", "nowhere")
    assert (ran.code, ran.out) == (0, "")
    assert (
        ran.err == f"{three.jobs}: no job passes the filters, of 3 jobs (to see all jobs: logist job list)\n"
    )


def test_json_and_jsonl_are_the_same_rows(three: Desk) -> None:
    rows = three("job", "list", "--json").json["data"]
    assert [row["id"] for row in rows] == ["new", "stuck", "draft"]
    assert rows[1]["stuck_kind"] == "agent"
    assert rows[1]["next_command"] == 'logist job resubmit --job stuck --note "..."'
    lines = three("job", "list", "--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == rows


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (None, "state.json is missing; the next change of the job recreates it from the history"),
        ("", "state.json is not valid JSON"),
        ('{"status": ', "state.json is not valid JSON"),
        ("[" * 100_000, "state.json is not valid JSON"),
        ("[]", "state.json is not a JSON object"),
        ("{}", "invalid state.json"),
        ('{"status": "DONE"}', "invalid state.json"),
        ({"rank": 1e400}, "invalid state.json"),
        ({"rank": "1"}, "invalid state.json"),
        ({"status": []}, "invalid state.json"),
        ({"title": None}, "invalid state.json"),
        ({"tags": "red"}, "invalid state.json"),
        ({"stuck": "x"}, "invalid state.json"),
        ({"created_at": 7}, "invalid state.json"),
        (
            {"usage": {"cumulative_cost": 1e400, "cumulative_cost_microcents": 0}},
            "invalid state.json",
        ),
    ],
)
def test_one_bad_state_hides_no_other_job(three: Desk, bad: str | dict[str, object] | None, why: str) -> None:
    file = three.job("new") / "state.json"
    if bad is None:
        file.unlink()
    elif isinstance(bad, dict):
        file.write_text(json.dumps(three.state("new") | bad), "utf-8")
    else:
        file.write_text(bad, "utf-8")
    before = three.tree()
    ran = three("job", "list")
    assert ran.code == 0
    assert [line.split("\t")[:2] for line in ran.out.splitlines()] == [
        ["new", "?"],
        ["stuck", "STUCK"],
        ["draft", "DRAFT"],
    ]
    assert ran.err == f"warning: {three.job('new')}: {why} (logist doctor --fix)\n"
    assert three.tree() == before
    assert ids(three, "--status", "?") == ["new"]


@pytest.mark.parametrize(
    "change",
    [
        {"rank": "first"},
        {"title": None},
        {"tags": None},
        {"usage": {}},
        {"usage": {"cumulative_cost": "x", "cumulative_cost_microcents": 0}},
        {"agent_role": 7},
        {"stuck": []},
        {"stuck": "x"},
        {"status": []},
    ],
)
def test_fields_of_any_kind_break_nothing(three: Desk, change: dict[str, object]) -> None:
    file = three.job("new") / "state.json"
    file.write_text(json.dumps(three.state("new") | change), "utf-8")
    for mode in ([], ["--json"], ["--jsonl"]):
        ran = three("job", "list", *mode)
        assert ran.code == 0
        assert "draft" in ran.out
        assert "bug in Logist" not in ran.err


def test_running_and_reviewing_are_shown_while_the_lock_is_held(desk: Desk) -> None:
    for job_id in ("asked", "left", "idle"):
        desk.create(job_id)
    desk("job", "step", "left")
    for job_id in ("asked", "left"):
        JobDir.open(desk.jobs, job_id).begin_exchange(1, {})
    with JobDir.open(desk.jobs, "asked").hold_lock(command="job step", since="now"):
        assert dict(row[:2] for row in columns(desk)) == {
            "asked": "RUNNING",
            "left": "REVIEW_REQUIRED",
            "idle": "PENDING",
        }
        assert ids(desk, "--status", "running") == ["asked"]
    with JobDir.open(desk.jobs, "left").hold_lock(command="job step", since="now"):
        assert dict(row[:2] for row in columns(desk))["left"] == "REVIEWING"


def test_what_is_no_job_is_not_listed(desk: Desk) -> None:
    desk.create()
    (desk.jobs / ".new-x-1").mkdir()
    (desk.jobs / "a file").write_text("", "utf-8")
    (desk.jobs / "link").symlink_to(desk.job())
    assert ids(desk) == ["j1"]


def test_a_jobs_directory_that_is_none(desk: Desk) -> None:
    file = desk.place / "file"
    file.write_text("", "utf-8")
    ran = desk("job", "list", "--jobs-dir", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {file}: must be a directory (check --jobs-dir or $LOGIST_JOBS_DIR)\n"


def test_the_jobs_directory_is_the_option_then_the_environment(desk: Desk) -> None:
    desk.create("here")
    desk.create("there", "--jobs-dir", "other")
    assert ids(desk) == ["here"]
    assert ids(desk, "--jobs-dir", "other") == ["there"]
    ran = desk("job", "list", env={"LOGIST_JOBS_DIR": "other"})
    assert ran.out.startswith("there\t")


READING = (
    ["job", "list"],
    ["job", "status", "j1"],
    ["job", "step", "j1"],
    ["run"],
    ["doctor"],
    ["stats"],
    ["replay"],
)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_directory_of_jobs_that_does_not_exist_is_an_error(desk: Desk, words: list[str]) -> None:
    """A typing error must not look like a directory without jobs."""
    ran = desk(*words, "--jobs-dir", "jbos")
    assert (ran.code, ran.out) == (2, "")
    said = f"error: {desk.place / 'jbos'}: jobs directory not found (check --jobs-dir; "
    assert ran.err.startswith(said)
    assert not (desk.place / "jbos").exists()


def test_so_is_one_that_the_environment_names(desk: Desk) -> None:
    missing = {"LOGIST_JOBS_DIR": "jbos"}
    for words in (["job", "list"], ["run"]):
        ran = desk(*words, env=missing)
        assert (ran.code, "(check $LOGIST_JOBS_DIR; " in ran.err) == (2, True)
    assert desk("stats", str(desk.place), env=missing).err == desk("stats", str(desk.place)).err
    desk.create("j1", "--jobs-dir", "made")
    assert (desk.place / "made" / "j1").is_dir()
