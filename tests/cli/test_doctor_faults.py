"""A fixed list of faults, each put into a real project: `logist doctor` names it, and --fix mends what is safe."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

import pytest

from logist.errors import LogistError
from logist.store.entries import seal_entry
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.faults import (
    HISTORY,
    SPEC,
    STATE,
    Inject,
    a_bit_of_the_history,
    a_bit_of_the_state,
    append,
    as_directory,
    as_file,
    asked,
    both,
    closed,
    copied_job,
    cut_pack,
    damaged_ledger,
    earlier,
    half_written,
    half_written_at_home,
    in_a_repository,
    in_the_making,
    just_in_the_making,
    link_among_jobs,
    linked,
    made_tomorrow,
    newer_ledger,
    no_pack,
    not_a_directory,
    of_another_job,
    of_another_user,
    open_to_all,
    orphan,
    put,
    removed,
    restate,
    restored,
    restoring,
    role,
    selected,
    spent,
    spoiled,
    spoiled_pack,
    stale_git,
    without_line,
    written,
)
from tests.support import RunLogist

Json = dict[str, Any]
Tree = dict[str, tuple[bytes | None, int]]

MODEL: dict[str, Path] = {}
"""The healthy project that every test takes a copy of; made by the first."""


@pytest.fixture(autouse=True)
def replayed() -> None:
    """Not here: these histories are damaged on purpose."""


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, cli: RunLogist) -> Desk:
    """A healthy project: `j1` with three interactions, `j2` with one, `j2` selected."""
    if "path" not in MODEL:
        made = Desk(tmp_path_factory.mktemp("model") / "project", cli)
        made("init")
        made.script(answer(command(evidence_files=["a.txt"]), files={"a.txt": "A"}), answer())
        for job in ("j1", "j2"):
            made.create(job)
        made("job", "step", "j1")
        shutil.copy2(made.job() / "state.json", made.place / "earlier.json")
        shutil.copy2(made.job() / "jobHistory.json", made.place / "shorter.json")
        made("job", "step", "j1")
        made("job", "select", "j2")
        MODEL["path"] = made.place
    desk = Desk(tmp_path / "project", cli)
    shutil.rmtree(desk.place)
    shutil.copytree(MODEL["path"], desk.place, symlinks=True)
    return desk


class Fault(NamedTuple):
    """One fault, and what doctor has to say and to do about it."""

    id: str
    inject: Inject
    says: str
    """Exit code, check and words; with 0 it is a warning, else an error. `...` stands for any text."""
    how: str = ""
    """`fix`: --fix mends it, and else changes no byte. `deep`: only --deep sees it. `run`: its advice is a
    command that mends it, run as printed."""

    def named_in(self, rows: list[Json]) -> list[Json]:
        code, _, what = self.says.partition(" ")
        check, _, words = what.partition(": ")
        wanted = (check, "error" if int(code) else "warning")
        pattern = re.compile(".*".join(map(re.escape, words.split("..."))))
        return [
            row for row in rows if (row["check"], row["level"]) == wanted and pattern.search(row["message"])
        ]

    @property
    def code(self) -> int:
        return int(self.says.partition(" ")[0])


GOOD_ROLE = "name: Poet\ndescription: d\ninstructions: i\nllm_model: grok-code-fast-1\n"
HOLE = b"\0" * 30

FAULTS = (
    # state.json
    Fault("state-missing", removed(STATE), "0 job j1: state.json is missing", "fix"),
    Fault("state-cut", written(STATE, b'{"version": 1'), "10 job j1: state.json is not valid JSON", "fix"),
    Fault("state-empty", written(STATE, b""), "10 job j1: state.json is not valid JSON", "fix"),
    Fault("state-a-list", written(STATE, b"[]\n"), "10 job j1: not a JSON object", "fix"),
    Fault(
        "state-bit", a_bit_of_the_state, "10 job j1: state.json failed verification: it was changed", "fix"
    ),
    Fault("state-link", linked(STATE), "10 job j1: state.json is a symbolic link", "fix"),
    Fault("state-directory", as_directory(STATE), "10 job j1: state.json is a directory", "fix"),
    Fault(
        "state-behind",
        earlier("earlier.json", STATE),
        "0 job j1: state.json is behind the history; interactions missing in it: 1",
        "fix",
    ),
    Fault(
        "state-not-of-the-history",
        restate({"status": "SUCCESS"}),
        "10 job j1: state.json: status",
        "deep fix",
    ),
    Fault("state-of-a-newer-logist", restate({"version": 2}), "0 job j1: format 2"),
    # jobHistory.json
    Fault("history-missing", removed(HISTORY), "10 job j1: the history is missing"),
    Fault("history-empty", written(HISTORY, b""), "10 job j1: first line"),
    Fault("history-first-line", spoiled(HISTORY, b'"segment":1', b'"segment":3'), "10 job j1: first line"),
    Fault(
        "history-bit-in-the-middle",
        a_bit_of_the_history,
        "10 job j1: interaction 2: the entry failed verification",
        "deep",
    ),
    Fault(
        "history-hole-in-the-middle",
        spoiled(HISTORY, b'"kind":"ask"', b"\0" * 12),
        "10 job j1: interaction 2: the entry failed verification",
        "deep",
    ),
    Fault(
        "history-line-gone",
        without_line(2),
        "10 job j1: interaction 3, the last one in state.json, not found",
    ),
    Fault(
        "history-last-bit",
        spoiled(HISTORY, b'"sequence":3', b'"sequence":7'),
        "10 job j1: interaction 3, the last one in state.json, not found",
    ),
    Fault(
        "history-shorter",
        earlier("shorter.json", HISTORY),
        "10 job j1: interaction 3, the last one in state.json, not found",
    ),
    Fault("history-of-another-job", of_another_job, "10 job j1: the last one in state.json, not found"),
    Fault(
        "history-torn",
        append(b',{"sequence":4,"ti', 3),
        "0 job j1: 18 bytes of an incomplete append",
        "fix",
    ),
    Fault("history-torn-behind-its-end", append(HOLE), "0 job j1: 33 bytes of an incomplete append", "fix"),
    Fault("history-not-closed", append(b"", 2), "0 job j1: closing line of the history is incomplete", "fix"),
    Fault("history-link", linked(HISTORY), "10 job j1: jobHistory.json is a symbolic link", "run"),
    Fault("history-directory", as_directory(HISTORY), "10 job j1: jobHistory.json is a directory"),
    Fault(
        "state-and-history",
        both(a_bit_of_the_history, written(STATE, b"{")),
        "10 job j1: state.json is not valid JSON",
    ),
    Fault(
        "state-knows-more",
        both(earlier("shorter.json", HISTORY), a_bit_of_the_state),
        "10 job j1: state.json failed verification: it was changed",
    ),
    # job.yaml
    Fault("spec-missing", removed(SPEC), "5 job j1: job.yaml is missing", "fix"),
    Fault("spec-no-yaml", written(SPEC, b"prompt: [\n"), "5 job j1: job.yaml"),
    Fault(
        "spec-unknown-key", written(SPEC, b"prompt: x\nrle: y\n"), "5 job j1: job.yaml:2: unknown key `rle`"
    ),
    Fault("spec-unknown-role", written(SPEC, b"prompt: x\nrole: Poet\n"), "5 job j1: unknown role `Poet`"),
    Fault("spec-of-another-job", copied_job, "5 job j9: `id` is 'j1', expected 'j9'"),
    Fault("spec-link", linked(SPEC), "0 job j1: job.yaml is a symbolic link", "run"),
    # the other files of a job
    Fault("lock-missing", removed("lock"), "0 job j1: the file 'lock' is missing", "fix"),
    Fault("lock-link", linked("lock"), "10 job j1: lock is a symbolic link", "run"),
    Fault("logs-missing", removed("logs"), "0 job j1: the directory 'logs' is missing", "fix"),
    Fault("logs-file", as_file("logs"), "10 job j1: logs is a file", "run"),
    Fault("attachments-file", written("attachments", b"x"), "10 job j1: attachments is a file", "run"),
    Fault(
        "workspace-missing", removed("workspace"), "10 job j1: the directory 'workspace' is missing", "fix"
    ),
    Fault("workspace-link", linked("workspace"), "10 job j1: workspace is a symbolic link", "run"),
    Fault(
        "modes",
        open_to_all,
        "0 job j1: wrong permissions, open to other users or closed to you: the job directory, logs, state.json",
        "fix",
    ),
    Fault("owner", of_another_user, "0 job j1: belong to uid 12345", "run"),
    Fault("closed", closed, "10 job j1: no permission to read and write the job", "run"),
    Fault("half-written", half_written, "0 job j1: half-written files", "fix"),
    Fault(
        "inflight-done",
        lambda desk: put(desk.job() / ".inflight-done" / "1.request"),
        "0 job j1: .inflight-done",
        "fix",
    ),
    # the checkpoints
    Fault("git-missing", removed("git"), "10 job j1: the directory 'git' is missing"),
    Fault("git-link", linked("git"), "10 job j1: git is a symbolic link"),
    Fault("git-without-head", removed("git/HEAD"), "10 job j1: has no HEAD"),
    Fault(
        "git-without-branch", removed("git/refs/heads/checkpoints"), "10 job j1: no checkpoint found in git"
    ),
    Fault(
        "git-branch-no-commit",
        written("git/refs/heads/checkpoints", b"\0\0"),
        "10 job j1: can't find the last checkpoint",
    ),
    Fault("git-without-pack", no_pack, "10 job j1: not found in git"),
    Fault("git-pack-cut", cut_pack, "10 job j1: is truncated"),
    Fault("git-pack-bit", spoiled_pack, "10 job j1: the checkpoints are damaged", "deep"),
    Fault("git-stale-locks", stale_git, "0 job j1: lock files left by a killed git", "fix"),
    # what killed commands had in hand
    Fault("not-sent", asked(), "0 job j2: killed before it called an agent", "run"),
    Fault("in-doubt", asked(sent=True), "0 job j2: in doubt", "run"),
    Fault(
        "answered",
        asked(sent=True, answered=True),
        "0 job j2: inflight/ contains an answer that is not recorded yet",
        "run",
    ),
    Fault(
        "recorded",
        asked(sent=True, answered=True, sequence=1),
        "0 job j2: inflight/ contains an answer that is already recorded",
        "run",
    ),
    Fault(
        "inflight-nonsense",
        written("inflight/1.request", b"["),
        "10 job j1: can't read the record of an exchange",
        "run",
    ),
    Fault("inflight-file", written("inflight", b""), "10 job j1: inflight is a file", "run"),
    Fault("restore-cut-off", restoring(4), "0 job j1: restep or rerun was interrupted"),
    Fault("restore-recorded", restored, "0 job j1: the temporary file of a recorded restep", "fix"),
    Fault(
        "restore-nonsense", written("restoring", b"{"), "10 job j1: can't read the record of a restore", "run"
    ),
    Fault(
        "ledger-damaged",
        damaged_ledger,
        "10 ledger: the ledger is damaged: entry 1 is missing, although totals.json includes it",
        "fix",
    ),
    Fault(
        "ledger-of-a-newer-logist",
        newer_ledger,
        "8 ledger: the ledger was written by a newer Logist (ledger format 9)",
    ),
    Fault(
        "ledger-forgotten",
        spent("gone"),
        "0 ledger: calls of jobs that don't exist any more are still reserved: gone",
        "fix",
    ),
    # around the jobs
    Fault("in-the-making", in_the_making, "0 jobs: .new-x-0123456789ab was left", "fix"),
    Fault("just-in-the-making", just_in_the_making, "0 jobs: .new-x-0123456789ab was left"),
    Fault("orphan", orphan, "0 job gone--2-1: parent job gone not found", "run"),
    Fault(
        "no-id", lambda desk: put(desk.jobs / "my job" / "a"), "0 jobs: 'my job' is not a valid job id", "run"
    ),
    Fault(
        "file-among-jobs",
        lambda desk: put(desk.jobs / "notes.txt"),
        "0 jobs: notes.txt is a file, not a job",
        "run",
    ),
    Fault("link-among-jobs", link_among_jobs, "0 jobs: j7 is a symbolic link", "run"),
    Fault(
        "empty-job", lambda desk: (desk.jobs / "j5").mkdir(mode=0o700), "10 job j5: the history is missing"
    ),
    Fault("jobs-a-file", not_a_directory, "5 jobs: is not a directory", "run"),
    Fault("selected-gone", selected(b"j8\n"), "0 selected: selected job not found: j8", "fix"),
    Fault("selected-nonsense", selected(b"\xff"), "0 selected: doesn't contain a job id", "fix"),
    Fault("half-written-at-home", half_written_at_home, "0 home: .current_job.0123456789ab.new", "fix"),
    Fault("not-ignored", in_a_repository, "0 home: .gitignore is missing", "fix"),
    Fault("config", lambda desk: desk.settings("limts: {}\n"), "5 config: unknown key `limts`"),
    Fault(
        "unknown-rate-limit",
        lambda desk: desk.settings("rate_limits: {opnai: {concurrent: 4}}\n"),
        "5 config: rate_limits.opnai: unknown provider or model `opnai`",
    ),
    Fault(
        "script-missing",
        lambda desk: (desk.place / "answers.json").unlink(),
        "5 config: agent: script not found: ...answers.json",
    ),
    Fault("role-broken", role("name: Poet\n"), "5 roles: `description` is missing"),
    Fault("role-unknown-key", role(GOOD_ROLE + "mood: x\n"), "0 roles: unknown field `mood`"),
    Fault("clock", made_tomorrow, "0 clock: last changed at 219"),
)


def look(desk: Desk, fault: Fault, *args: str) -> tuple[int, list[Json], Json]:
    ran = desk("doctor", "--json", *(["--deep"] if "deep" in fault.how else []), *args)
    assert ran.err == ""
    data = ran.json["data"]
    return ran.code, data["checks"], data


def tree(desk: Desk) -> Tree:
    """Every byte and every mode of the project."""
    return {
        name: (data, (desk.place / name).lstat().st_mode) for name, data in support.tree(desk.place).items()
    }


def acknowledged(desk: Desk) -> dict[str, bytes]:
    """The entries of every history, as bytes."""
    found = {path.parent.name: path.read_bytes() for path in desk.jobs.glob("*/jobHistory.json")}
    return {job: data.removesuffix(b"\n]}\n") for job, data in found.items()}


@pytest.mark.deep_beyond(20)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_it_is_named_and_mended_if_that_is_safe(place: Desk, fault: Fault) -> None:
    entries = acknowledged(place)
    fault.inject(place)
    before = tree(place)
    code, rows, data = look(place, fault)
    assert fault.named_in(rows), rows
    assert code == fault.code, rows
    assert all(row["fix"] for row in fault.named_in(rows))
    assert (data["fixed"], data["backup"]) == ([], None)
    assert tree(place) == before, "doctor without --fix wrote"
    if "fix" in fault.how:
        mended(place, fault, before, entries)
    else:
        left_alone(place, fault, before)


def mended(desk: Desk, fault: Fault, before: Tree, entries: dict[str, bytes]) -> None:
    code, rows, data = look(desk, fault, "--fix")
    assert not fault.named_in(rows), rows
    assert code == 0, rows
    assert data["fixed"]
    after = tree(desk)
    kept = support.tree(Path(data["backup"])).values() if data["backup"] else []
    changed = [
        name for name, (old, _) in before.items() if old is not None and after.get(name, (None,))[0] != old
    ]
    changed = [name for name in changed if not name.endswith("git/logist-stamps")]  # only a cache
    assert [name for name in changed if before[name][0] not in kept] == [], (
        "changed or removed without a backup"
    )
    for job in ("j1", "j2"):
        ran = desk("job", "verify", job)
        assert (ran.code, ran.err) == (0, ""), ran
        assert desk("job", "replay", job).code == 0
    now = acknowledged(desk)
    assert all(now[job].startswith(lines) for job, lines in entries.items())
    assert look(desk, fault, "--fix")[2]["fixed"] == []
    assert tree(desk) == after, "a second --fix did something"


def left_alone(desk: Desk, fault: Fault, before: Tree) -> None:
    code, rows, data = look(desk, fault, "--fix")
    assert fault.named_in(rows), rows
    assert code == fault.code
    assert (data["fixed"], data["backup"]) == ([], None)
    assert tree(desk) == before, "--fix changed what it did not mend"


@pytest.mark.deep_beyond(5)
@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if "run" in fault.how], ids=lambda fault: fault.id
)
def test_its_advice_is_a_command_that_works_as_printed(place: Desk, fault: Fault) -> None:
    fault.inject(place)
    [row] = fault.named_in(look(place, fault)[1])
    script = f'logist() {{ {join(support.logist_command())} "$@"; }}\n{row["fix"]}'
    env = support.process_environment() | place.env
    done = subprocess.run(["sh", "-c", script], cwd=place.place, env=env, capture_output=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert not fault.named_in(look(place, fault)[1])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_verify_finds_the_same_without_the_models(place: Desk, fault: Fault) -> None:
    fault.inject(place)
    assert_same_verification(place)


@pytest.mark.deep_beyond(12)
@pytest.mark.parametrize("seed", range(150))
def test_verify_finds_the_same_without_the_models_whatever_is_damaged(place: Desk, seed: int) -> None:
    """A few bytes of the job's files changed, removed, repeated or inserted; also where a checksum does not cover them."""
    chosen = random.Random(seed)
    for _ in range(chosen.choice([1, 1, 2])):
        file = place.job() / chosen.choice([HISTORY, HISTORY, STATE, SPEC])
        data = file.read_bytes()
        start = chosen.randrange(len(data))
        end = min(len(data), start + chosen.choice([1, 1, 10, 200]))
        part = data[start:end]
        other = chosen.choice([b"", b"0", b'"', b"\n", b"\xff", part * 2, part[::-1], part.swapcase()])
        file.write_bytes(data[:start] + other + data[end:])
    if chosen.random() < 0.5:
        reseal(place.job())
    assert_same_verification(place)


def reseal(job: Path) -> None:
    """Make checksums valid again where the JSON still is: then only the models see what is wrong."""
    previous, lines = None, (job / HISTORY).read_bytes().split(b"\n")
    for number, line in enumerate(lines):
        try:
            entry = json.loads(line.removeprefix(b","))
            sequence = entry.pop("sequence")
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
        comma = b"," if line.startswith(b",") else b""
        try:
            sealed, body = seal_entry(entry, sequence, previous)
        except (LogistError, ValueError):
            return
        previous = sealed["checksum"]
        lines[number] = comma + body
    (job / HISTORY).write_bytes(b"\n".join(lines))


def assert_same_verification(place: Desk) -> None:
    """A scripted agent in the environment makes `job verify` read the settings with their models."""
    before = tree(place)
    with_models = place("job", "verify", "j1", "--json")
    assert place("job", "verify", "j1", "--json", env={"LOGIST_AGENT": ""}) == with_models
    assert tree(place) == before
