"""Jobs that a newer Logist has worked on, under today's commands: nothing of its work is lost, nothing is fatal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logist import __version__
from logist.cli.main import JOB as JOB_COMMANDS
from logist.core.history.spec_hash import spec_hash
from logist.core.model import EffectiveSpec
from logist.store import JobDir
from tests.cli.desk import Desk, answer, command
from tests.cli.test_json import schemas, validate
from tests.support import RunLogist

Json = dict[str, Any]

JOB = "j1"
NEWER = "use the version of Logist that wrote it, or a newer one"
READING = ("status", "show", "history", "verify", "replay")
CHANGING: list[list[str]] = [
    ["step"],
    ["run"],
    ["poststep", "--response-string", command()],
    ["resubmit"],
    ["approve"],
    ["reject", "--note", "no"],
    ["suspend"],
    ["resume"],
    ["cancel"],
    ["fail"],
    ["rerun"],
    ["restep", "--to", "2"],
    ["rank", "3"],
    ["config", "--set", "title=x"],
]


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    """A job with one step done, in review."""
    desk = Desk(tmp_path / "project", cli)
    desk.script(answer(command(output={"n": 1})), answer("no exit command"), answer())
    desk.create(JOB, "--no-repo")
    assert desk("job", "step", JOB).code == 0
    return desk


def opened(desk: Desk) -> JobDir:
    return JobDir.open(desk.jobs, JOB)


def newest(desk: Desk, **fields: Any) -> Json:
    """An interaction as a newer Logist adds it: of a kind of its own, and the job stays where it is."""
    last = desk.history()[-1]
    return {
        "version": 1,
        "timestamp": "2026-01-02T03:04:06Z",
        "kind": "merge-queue",
        "actor": "steward",
        "state_before": last["state_after"],
        "state_after": last["state_after"],
        "workspace_path": str(desk.job(JOB) / "workspace"),
        "after": last["after"],
        "steward": {"name": "ada", "teams": ["red"]},
        "lane": {"name": "fast", "since": None},
        **fields,
    }


def appended(desk: Desk, entry: Json, state: Json | None = None) -> None:
    """What a newer Logist leaves: its entry, and with `state` a state.json that has seen it."""
    job = opened(desk)
    loaded = job.load()
    done = job.append_entries(loaded.position, [entry])
    if state is not None:
        place = {name: value for name, value in entry["after"].items() if name != "version"}
        revised(desk, revision=done.position.sequence, **{**place, **state}, head=done.position)


def revised(desk: Desk, **changes: Any) -> None:
    """state.json with other values in it, and a checksum that is right."""
    if head := changes.pop("head", None):
        changes["head"] = {"sequence": head.sequence, "hash": head.hash, "offset": head.offset}
    opened(desk).write_state({**desk.state(JOB), **changes})


def line(desk: Desk, sequence: int) -> bytes:
    """An entry of the history to the byte, its comma left out."""
    lines = (desk.job(JOB) / "jobHistory.json").read_bytes().split(b"\n")
    return lines[sequence].removeprefix(b",")


SEEN = pytest.mark.parametrize("seen", [True, False], ids=["seen", "behind"])


class TestUnknownKind:
    @SEEN
    def test_every_reading_command_works(self, desk: Desk, seen: bool) -> None:
        appended(desk, newest(desk), {} if seen else None)
        before = desk.tree()
        for name in READING:
            ran = desk("job", name, JOB)
            assert ran.code == 0, (name, ran)
        assert "REVIEW_REQUIRED" in desk("job", "list").out
        assert desk("job", "preview", JOB).code == 0
        assert desk.tree() == before

    def test_the_history_shows_it_as_it_is_written_and_warns(self, desk: Desk) -> None:
        appended(desk, newest(desk), {})
        shown = desk("job", "history", JOB)
        assert "#3 steward: merge-queue, REVIEW_REQUIRED -> REVIEW_REQUIRED" in shown.out
        assert (
            "interaction 3 is from a newer version of Logist (kind merge-queue): kept, but skipped"
            in shown.out
        )
        assert desk("job", "history", JOB, "--json").json["data"][2]["lane"]["name"] == "fast"

    def test_verify_notes_it(self, desk: Desk) -> None:
        appended(desk, newest(desk), {"outputs": {"lane": 3}, "note": "what a newer one made of it"})
        ran = desk("job", "verify", JOB)
        assert ran.code == 0
        assert "interaction 3 is from a newer version of Logist (kind merge-queue)" in ran.err

    def test_replay_skips_it_and_warns(self, desk: Desk) -> None:
        appended(desk, newest(desk), {})
        ran = desk("job", "replay", JOB)
        assert (ran.code, ran.out) == (0, "j1: 2 interactions replay with the same result, 1 skipped\n")
        assert "warning: interaction 3 is from a newer version of Logist" in ran.err
        data = desk("job", "replay", JOB, "--json").json["data"]
        assert (data["interactions"], data["skipped"]) == (3, 1)

    @SEEN
    def test_a_step_goes_on_from_where_it_left_the_job(self, desk: Desk, seen: bool) -> None:
        place = {"status": "PENDING", "step": "task", "attempts": 2}
        appended(desk, newest(desk, after=place, state_after="PENDING"), {} if seen else None)
        kept = line(desk, 3)
        ran = desk("job", "step", JOB)
        assert ran.code == 3, ran
        assert ("interaction 3 is from a newer version of Logist" in ran.err) is not seen
        assert desk.history()[3]["state_before"] == "PENDING"
        assert desk.history()[3]["attempt"] == 3
        assert line(desk, 3) == kept
        assert desk("job", "verify", JOB).code == 0

    def test_what_it_used_counts(self, desk: Desk) -> None:
        usage = {"cost_cents": 999, "cost_microcents": 999_999, "seconds": 1.5, "source": "estimate"}
        appended(desk, newest(desk, usage=usage))
        used = desk("job", "status", JOB, "--json").json["data"]["usage"]
        assert (used["cumulative_cost"], used["cumulative_cost_microcents"]) == (999, 999_999)

    def test_a_stuck_job_is_resubmitted(self, desk: Desk) -> None:
        desk("job", "step", JOB)
        assert desk.state(JOB)["status"] == "STUCK"
        appended(desk, newest(desk), {})
        assert desk("job", "resubmit", JOB, "--note", "n").code == 0
        assert desk.state(JOB)["status"] == "PENDING"

    def test_a_stuck_job_is_given_its_answer(self, desk: Desk) -> None:
        desk("job", "step", JOB)
        appended(desk, newest(desk))
        assert desk("job", "poststep", JOB, "--response-string", command()).code == 11
        assert desk("job", "verify", JOB).code == 0

    @pytest.mark.parametrize("to", [2, 3, 4])
    def test_going_back_before_it_to_it_and_past_it(self, desk: Desk, to: int) -> None:
        appended(desk, newest(desk), {})
        desk("job", "step", JOB)
        assert desk("job", "restep", JOB, "--to", str(to)).code == 0
        assert desk.state(JOB)["status"] == ("PENDING" if to == 2 else "REVIEW_REQUIRED")
        assert desk("job", "verify", JOB).code == 0

    def test_a_lost_state_is_made_again(self, desk: Desk) -> None:
        appended(desk, newest(desk), {})
        (desk.job(JOB) / "state.json").unlink()
        assert desk("job", "status", JOB).code == 0
        assert desk("job", "suspend", JOB).code == 0
        assert desk.state(JOB)["revision"] == 4

    def test_one_whose_every_field_has_another_shape(self, desk: Desk) -> None:
        odd = newest(desk, request=[1], response="x", usage=3, observed=False, timestamp=0, route={})
        appended(desk, odd, {})
        for name in READING:
            assert desk("job", name, JOB).code == 0, name
        assert desk("job", "step", JOB).code == 3

    def test_doctor_finds_nothing_wrong(self, desk: Desk) -> None:
        appended(desk, newest(desk), {})
        assert desk("doctor", "--deep").code == 0


PLACES: list[Json] = [
    {"status": "PARKED"},
    {"status": "APPROVAL_REQUIRED", "awaiting": "merge"},
    {
        "status": "STUCK",
        "stuck": {"kind": "budget", "step": "task", "role": "Worker", "phase": "doer", "reason": "none left"},
    },
]


class TestUnknownPlace:
    """Where only a newer Logist knows what comes next, this one looks on."""

    @SEEN
    @pytest.mark.parametrize("place", PLACES, ids=["status", "awaiting", "stuck"])
    def test_the_job_is_shown_and_never_moved(self, desk: Desk, place: Json, seen: bool) -> None:
        appended(desk, newest(desk, after=place, state_after=place["status"]), {} if seen else None)
        before = desk.tree()
        for name in READING:
            ran = desk("job", name, JOB)
            assert ran.code == 0, (name, ran)
        assert place["status"] in desk("job", "status", JOB).out
        if seen:
            assert place["status"] in desk("job", "list").out
        for args in CHANGING:
            ran = desk("job", args[0], JOB, *args[1:])
            assert ran.code == 8, (args, ran)
            assert NEWER in ran.err, args
        assert desk("job", "poststep", JOB, "--response-string", command(), "--dry-run").code == 8
        assert desk.tree() == before

    def test_a_run_over_all_jobs_passes_it_over(self, desk: Desk) -> None:
        place = {"status": "PARKED"}
        appended(desk, newest(desk, after=place, state_after="PARKED"), {})
        ran = desk("run")
        assert ran.code == 0
        assert desk.state(JOB)["status"] == "PARKED"

    def test_a_preview_says_that_nothing_is_asked(self, desk: Desk) -> None:
        appended(desk, newest(desk, after={"status": "PARKED"}, state_after="PARKED"), {})
        ran = desk("job", "preview", JOB)
        assert ran.code == 8
        assert "PARKED" in ran.err


CRAWL: dict[str, list[str]] = {
    "poststep": ["--response-string", command()],
    "role": ["Planner"],
    "reject": ["--note", "x"],
    "restep": ["--to", "2"],
    "rank": ["1"],
    "export": ["--fixture", "f"],
    "delete": ["--yes"],
    "cancel": ["--yes"],
    "scrub": ["--pattern", "nowhere", "--yes"],
}
"""What commands need besides the job."""
ONLY_NAMES = {"create", "import", "unpack", "select", "du", "list"}
"""Commands that read nothing of the job's content, or take no job."""


class TestNewerFormat:
    """A higher `version` means that this Logist would misread the job: every command says so, and writes nothing."""

    def refused(self, desk: Desk, writer: str) -> None:
        before = desk.tree()
        crawl = [["job", name, JOB, *CRAWL.get(name, [])] for name in JOB_COMMANDS if name not in ONLY_NAMES]
        crawl += [
            ["job", "config", JOB, "--set", "title=x"],
            ["job", "poststep", JOB, *CRAWL["poststep"], "--dry-run"],
        ]
        crawl += [["inbox", "note", JOB, "x"], ["inbox", "snooze", JOB, "--until", "1d"]]
        crawl += [[name, str(desk.job(JOB))] for name in ("replay", "stats", "whatif")]
        for args in crawl:
            args = [*args, "--set", "review=false"] if args[0] == "whatif" else args
            ran = desk(*args)
            assert ran.code == 8, (args, ran)
            text = f"was written by {writer} (job format 2); this Logist {__version__} reads up to format 1"
            assert text in ran.out + ran.err, (args, ran)
            assert args[0] != "job" or (NEWER in ran.err and ran.err.count("\n") == 1), (args, ran)
        assert desk.tree() == before

    def test_of_the_state(self, desk: Desk) -> None:
        revised(desk, version=2, logist="0.9.0")
        self.refused(desk, "Logist 0.9.0")

    def test_of_a_state_that_reads_in_no_way(self, desk: Desk) -> None:
        revised(desk, version=2, usage=["all new"], limits=None, logist="0.9.0")
        self.refused(desk, "Logist 0.9.0")

    def test_of_an_interaction(self, desk: Desk) -> None:
        """A newer Logist was killed after it wrote the interaction."""
        appended(desk, newest(desk, version=2, request={"prompt": 7}), None)
        self.refused(desk, "a newer Logist")

    def test_of_an_interaction_without_a_state(self, desk: Desk) -> None:
        appended(desk, newest(desk, version=2), None)
        (desk.job(JOB) / "state.json").unlink()
        self.refused(desk, "a newer Logist")

    def test_what_lists_many_jobs_names_it_and_goes_on(self, desk: Desk) -> None:
        desk.create("j2", "--no-repo")
        revised(desk, version=2, logist="0.9.0")
        reason = f"job {JOB} was written by Logist 0.9.0 (job format 2)"
        before = desk.tree()
        for args in (["job", "list"], ["watch"], ["inbox"], ["doctor"], ["doctor", "--fix"], ["job", "du"]):
            ran = desk(*args)
            assert ran.code in (0, 11), (args, ran)
            assert args == ["inbox"] or "j2" in ran.out, (args, ran)
            assert args == ["job", "du"] or reason in ran.out + ran.err, (args, ran)
        assert desk.tree() == before
        row = next(row for row in desk("job", "list", "--json").json["data"] if row["id"] == JOB)
        assert (row["status"], row["next_command"]) == ("?", "logist doctor")

    def test_a_run_does_the_other_jobs(self, desk: Desk) -> None:
        desk.create("j2", "--no-repo")
        revised(desk, version=2, logist="0.9.0")
        files = desk.tree()
        ran = desk("run")
        assert f"job {JOB} was written by Logist 0.9.0 (job format 2)" in ran.err
        assert desk.state("j2")["revision"] > 1
        assert {path: content for path, content in desk.tree().items() if f"/{JOB}/" in str(path)} == {
            path: content for path, content in files.items() if f"/{JOB}/" in str(path)
        }

    def test_it_is_deleted_only_by_force(self, desk: Desk) -> None:
        revised(desk, version=2, logist="0.9.0")
        assert "logist doctor --fix" not in desk("job", "delete", JOB, "--yes").err
        assert desk("job", "delete", JOB, "--yes", "--force").code == 0

    def test_of_the_whole_history(self, desk: Desk) -> None:
        """No Logist leaves this: it writes the format to state.json first."""
        file = desk.job(JOB) / "jobHistory.json"
        file.write_bytes(file.read_bytes().replace(b'{"version":1,"segment"', b'{"version":2,"segment"', 1))
        (desk.job(JOB) / "damaged-on-purpose").touch()
        before = desk.tree()
        for args in CHANGING:
            ran = desk("job", args[0], JOB, *args[1:])
            assert (ran.code, "(job format 2)" in ran.err) == (8, True), (args, ran)
        for name in ("history", "replay", "verify"):
            ran = desk("job", name, JOB)
            assert ran.code in (8, 10), (name, ran)
            assert "(job format 2)" in ran.out + ran.err
        assert desk.tree() == before

    def test_every_state_names_the_logist_that_wrote_it(self, desk: Desk) -> None:
        assert desk.state(JOB)["logist"] == __version__
        assert "logist" not in desk("job", "status", JOB, "--json").json["data"]


MOVES: list[list[list[str]]] = [
    [["step"]],
    [["suspend"], ["resume"]],
    [["config", "--set", "limits.cost_threshold=2000"]],
    [["rank", "4"]],
    [["rerun"]],
    [["restep", "--to", "2"]],
    [["step"], ["resubmit"]],
    [["cancel"]],
]


class TestUnknownFields:
    @pytest.mark.parametrize("moves", MOVES, ids=lambda moves: "-".join(move[0] for move in moves))
    def test_of_a_state_survive_every_change(self, desk: Desk, moves: list[list[str]]) -> None:
        usage = desk.state(JOB)["usage"]
        revised(desk, lane={"name": "fast"}, budget=None, usage={**usage, "cached_tokens": 7})
        assert desk("job", "verify", JOB).code == 0
        for move in moves:
            assert desk("job", move[0], JOB, *move[1:]).code in (0, 3), move
        state = desk.state(JOB)
        assert (state["lane"], state["budget"]) == ({"name": "fast"}, None)
        if moves != [["rerun"]]:  # what was used is nothing again
            assert state["usage"]["cached_tokens"] == 7
        assert desk("job", "verify", JOB).code == 0

    @SEEN
    def test_of_interactions_survive_an_append(self, desk: Desk, seen: bool) -> None:
        spec = desk.history()[0]["spec"]
        spec = {**spec, "limits": {**spec["limits"], "max_depth": 3}, "probes": ["make test"]}
        after = {**desk.history()[-1]["after"], "lane": "fast"}
        entry = newest(desk, kind="spec", actor="system", spec=spec, after=after)
        entry["request"] = {"prompt": "", "tools": ["bash"]}
        entry["response"] = {"status": "SUCCESS", "thinking": None}
        given = {"limits": spec["limits"], "spec_hash": spec_hash(EffectiveSpec.model_validate(spec))}
        appended(desk, entry, given if seen else None)
        kept = line(desk, 3)
        assert desk("job", "step", JOB).code == 3
        assert line(desk, 3) == kept
        for name in READING:
            assert desk("job", name, JOB).code == 0, name
        shown = desk("job", "history", JOB, "--json").json["data"][2]
        assert shown["spec"]["limits"]["max_depth"] == 3
        assert shown["response"]["thinking"] is None

    def test_of_a_recorded_spec_survive_in_the_state(self, desk: Desk) -> None:
        spec = desk.history()[0]["spec"]
        spec = {**spec, "limits": {**spec["limits"], "max_depth": 3}}
        appended(desk, newest(desk, kind="spec", actor="system", spec=spec))
        assert desk("job", "suspend", JOB).code == 0
        assert desk.state(JOB)["limits"]["max_depth"] == 3

    def test_of_a_state_that_is_behind_a_restep(self, desk: Desk) -> None:
        revised(desk, lane="fast")
        desk("job", "restep", JOB, "--to", "2")
        # the same files, as a kill between the append and the state leaves them
        state = {name: value for name, value in desk.state(JOB).items() if name != "checksum"}
        entries = desk.history()
        offset = (desk.job(JOB) / "jobHistory.json").read_bytes().index(b',{"sequence":2,')
        head = {"sequence": 2, "hash": entries[1]["checksum"], "offset": offset}
        opened(desk).write_state({**state, "revision": 2, "status": "REVIEW_REQUIRED", "head": head})
        assert desk("job", "suspend", JOB).code == 0
        assert desk.state(JOB)["lane"] == "fast"


class TestJobYaml:
    def add(self, desk: Desk, text: str) -> Path:
        file = desk.job(JOB) / "job.yaml"
        file.write_text(file.read_text("utf-8") + text, "utf-8")
        return file

    def test_an_unknown_key_is_told_and_left_alone(self, desk: Desk) -> None:
        file = self.add(desk, "lane: fast # of a newer one\nlimits:\n  max_depth: 3\n  max_attempts: 2\n")
        before = file.read_bytes()
        for args in (["preview", JOB], ["step", JOB]):
            ran = desk("job", *args)
            assert "unknown key `lane`" in ran.err
            assert "unknown key `limits.max_depth`" in ran.err
        assert desk.state(JOB)["limits"]["max_attempts"] == 2
        assert file.read_bytes() == before
        assert desk("job", "show", JOB).code == 0

    def test_a_slip_stops_what_works_by_the_spec(self, desk: Desk) -> None:
        file = self.add(desk, "limits:\n  cost_treshold: 5\n")
        history, line = desk.history(), len(file.read_text("utf-8").splitlines())
        message = f"job.yaml:{line}: unknown key `limits.cost_treshold` (did you mean `cost_threshold`?)\n"
        for args in (["step"], ["run"], ["preview"], ["config", "--set", "rank=3"], ["rank", "3"], ["fork"]):
            ran = desk("job", *args, "--job", JOB)
            assert (ran.code, ran.err.endswith(message)) == (5, True), args
        assert desk.history() == history
        assert "rank" not in file.read_text("utf-8")

    def test_a_slip_hides_no_job(self, desk: Desk) -> None:
        self.add(desk, "reveiw: false\n")
        for name in ("show", "status", "history", "verify", "replay", "config"):
            assert desk("job", name, JOB).code == 0
        assert desk("job", "suspend", JOB).code == 0
        assert desk("job", "config", JOB, "--unset", "reveiw").code == 0
        assert desk("job", "resume", JOB).code == 0

    def test_config_keeps_it(self, desk: Desk) -> None:
        file = self.add(desk, "lane: fast # of a newer one\nlimits: {max_depth: 3}\n")
        assert desk("job", "config", JOB, "--set", "limits.cost_threshold=2000").code == 0
        text = file.read_text("utf-8")
        assert "lane: fast # of a newer one" in text
        assert "max_depth: 3" in text
        assert "2000" in text

    @pytest.mark.parametrize("setting", ["lane=slow", "lane.name=slow", "limits.max_depth=4", "colour=red"])
    def test_config_sets_none(self, desk: Desk, setting: str) -> None:
        file = self.add(desk, "lane: {name: fast}\nlimits: {max_depth: 3}\n")
        before = file.read_bytes()
        ran = desk("job", "config", JOB, "--set", setting)
        assert (ran.code, "unknown key" in ran.err) == (5, True)
        assert file.read_bytes() == before

    def test_config_may_take_it_out(self, desk: Desk) -> None:
        file = self.add(desk, "lane: fast\n")
        assert desk("job", "config", JOB, "--unset", "lane").code == 0
        assert "lane" not in file.read_text("utf-8")

    def test_a_wrong_value_beside_it_is_an_error(self, desk: Desk) -> None:
        self.add(desk, "lane: fast\nreview: maybe\n")
        ran = desk("job", "step", JOB)
        assert ran.code == 5
        assert "`review` must be true or false" in ran.err

    def test_a_new_job_takes_none(self, desk: Desk) -> None:
        (desk.place / "spec.yaml").write_text("prompt: x\nlane: fast\n", "utf-8")
        ran = desk("job", "create", "spec.yaml", "--id", "j2")
        assert (ran.code, "unknown key `lane`" in ran.err) == (5, True)


@pytest.mark.parametrize("place", PLACES, ids=["status", "awaiting", "stuck"])
def test_json_is_as_published(desk: Desk, place: Json) -> None:
    entry = newest(desk, after=place, state_after=place["status"], actor="robot")
    appended(desk, {**entry, "usage": desk.history()[-1]["usage"], "request": {}, "response": {}}, place)
    for name in (*READING, "list"):
        shown = desk("job", name, *([] if name == "list" else [JOB]), "--json")
        assert shown.code == 0, name
        validate(shown.json["data"], schemas()[f"job-{name}"])
