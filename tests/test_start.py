"""Starting up is cheap and silent: what is asked often loads nothing heavy, prints nothing and makes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from logist.store.run_records import JobStart, RunRecorder, RunStart
from tests.support import RunLogist, process_environment, tree
from tests.torture.lab import command

HEAVY = {
    "asyncio",
    "email",
    "hashlib",
    "http",
    "importlib.metadata",
    "inspect",
    "jsonschema",
    "litellm",
    "logist.quick_model",
    "multiprocessing",
    "pydantic",
    "pydantic_core",
    "rich",
    "ruamel",
    "sqlite3",
    "ssl",
    "urllib.request",
    "yaml",
}
TIMED = {"PYTHONPROFILEIMPORTTIME": "1"}
COMPLETING = {"_LOGIST_COMPLETE": "bash_complete", "COMP_WORDS": "logist job st", "COMP_CWORD": "2"}


def loaded(report: str) -> set[str]:
    """The modules in what Python writes to standard error when it times its imports."""
    return {
        line.rpartition("|")[2].strip() for line in report.splitlines() if line.startswith("import time:")
    }


def heavy(report: str) -> set[str]:
    names = loaded(report)
    assert "logist.cli" in names
    return {name for name in names for root in HEAVY if name == root or name.startswith(f"{root}.")}


def talk(report: str) -> str:
    return "".join(line for line in report.splitlines(True) if not line.startswith("import time:"))


@pytest.fixture
def job(run_logist: RunLogist) -> str:
    assert run_logist("init").code == 0
    made = run_logist("job", "create", "--id", "j1", "--prompt", "do it", "--no-repo")
    assert made.code == 0, made.err
    return "j1"


@pytest.fixture
def run_record(tmp_path: Path) -> None:
    """A run that was killed at work."""
    folder = tmp_path / ".logist" / "runs"
    folder.mkdir(parents=True)
    recorder = RunRecorder(str(folder), RunStart("2026-11-26T23:00:01-3f2a", "2026-11-26T23:00:01Z"), print)
    recorder.write(JobStart("j1", "2026-11-26T23:00:02Z"))
    recorder.close()


@pytest.fixture
def answered_job(run_logist: RunLogist, job: str, tmp_path: Path) -> str:
    """A job with an answer and a changed file, which waits for approval."""
    (tmp_path / ".logist" / "jobs" / job / "workspace" / "a.txt").write_text("a", "utf-8")
    for _ in range(2):
        answered = run_logist("job", "poststep", job, "--response-string", command())
        assert answered.code in (0, 11), answered.err
    assert run_logist("job", "status", job).out.startswith("j1 is APPROVAL_REQUIRED")
    return job


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--version"], {}),
        (["--help"], {}),
        (["job", "--help"], {}),
        (["job", "list"], {}),
        (["job", "list", "--json"], {}),
        (["watch"], {}),
        (["job", "status", "j1"], {}),
        (["job", "status", "j1", "--json"], {}),
        (["inbox", "--json"], {}),
        (["runs", "list", "--json"], {}),
        (["runs", "show", "--json"], {}),
        (["completion", "bash"], {}),
        ([], COMPLETING),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("job", "run_record")
def test_what_is_asked_often_is_light(
    run_logist: RunLogist, tmp_path: Path, args: list[str], env: Mapping[str, str]
) -> None:
    before = tree(tmp_path)
    ran = run_logist(*args, env=TIMED | dict(env))
    assert ran.code == 0, talk(ran.err)
    assert ran.out
    assert talk(ran.err) == ""
    assert heavy(ran.err) == set()
    assert tree(tmp_path) == before


def test_the_inbox_is_light(run_logist: RunLogist, tmp_path: Path, job: str) -> None:
    assert run_logist("job", "config", job, "--set", "limits.cost_threshold=0").code == 0
    script = tmp_path / "answers.json"
    script.write_text('{"answers": []}', "utf-8")
    assert run_logist("job", "step", job, env={"LOGIST_AGENT": f"scripted:{script}"}).code == 7
    before = tree(tmp_path)
    ran = run_logist("inbox", env=TIMED)
    assert (ran.code, talk(ran.err)) == (7, "")
    assert ran.out.startswith("j1\tcost\t")
    assert heavy(ran.err) == set()
    assert tree(tmp_path) == before


@pytest.mark.deep_beyond(2)
@pytest.mark.parametrize(
    "args",
    [
        ["job", "show", "j1"],
        ["job", "show", "j1", "--json"],
        ["job", "history", "j1"],
        ["job", "history", "j1", "--json"],
        ["job", "history", "j1", "--raw", "2"],
        ["job", "diff", "j1", "--stat"],
        ["job", "verify", "j1"],
        ["role", "list"],
        ["config", "show"],
        ["inbox", "--json"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("answered_job")
def test_what_only_reads_loads_no_pydantic(run_logist: RunLogist, tmp_path: Path, args: list[str]) -> None:
    before = tree(tmp_path)
    ran = run_logist(*args, env=TIMED)
    assert ran.code in (0, 11), talk(ran.err)  # 11: the inbox has a job that waits for approval
    assert ran.out
    assert heavy(ran.err) == set()
    assert tree(tmp_path) == before


_PARSERS = ("lark", "regex", "ruamel", "logist.core.mermaid", "logist.workflows.", "logist.core.condition")
"""What reads workflow files."""


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize(
    ("args", "unused"),
    [
        (
            ["job", "verify", "j1"],
            (
                *_PARSERS,
                "hashlib",
                "logist.cli.checkup",
                "logist.config.price_table",
                "logist.config.sections",
                "logist.config.settings",
                "logist.core.text.columns",
                "logist.agents.",
                "logist.core.machine.routing",
                "logist.core.template",
                "logist.core.prompt",
                "logist.roles",
            ),
        ),
        (["job", "diff", "j1", "--stat"], ("logist.core.history.fold", "logist.workspace.workspace")),
        (["inbox", "--json"], ("subprocess", "tempfile", "logist.core.history.fold")),
        (
            ["job", "replay", "j1"],
            (
                *_PARSERS,
                "email",
                "importlib.metadata",
                "logist.agents.programs",
                "logist.workspace.workspace",
                "logist.cli.checkup.project_checks",
                "logist.cli.show.glance",
                "logist.jobs.doctor",
            ),
        ),
        (
            ["doctor"],
            (*_PARSERS, "email", "importlib.metadata", "logist.jobs.turn.answer_recording"),
        ),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
@pytest.mark.usefixtures("answered_job")
def test_a_command_loads_only_what_it_uses(
    run_logist: RunLogist, tmp_path: Path, args: list[str], unused: tuple[str, ...]
) -> None:
    (tmp_path / ".logist" / "jobs" / "j1" / "workspace" / "b.txt").write_text("edited by hand", "utf-8")
    ran = run_logist(*args, env=TIMED)
    assert "error: " not in talk(ran.err), talk(ran.err)
    assert ran.out
    assert [name for name in sorted(loaded(ran.err)) if name.startswith(unused)] == []


def test_importing_the_command_line_does_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import logist.__main__"],
        env=process_environment() | TIMED,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, talk(done.stderr)) == (0, "", "")
    assert heavy(done.stderr) == set()
    assert tree(tmp_path) == {}


def test_a_program_that_imports_the_command_line_stays_as_it_is() -> None:
    code = """
import gc
before = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()
import logist.cli, inspect, platform, gettext, ipaddress, locale
assert before == (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count())
assert all(each.__spec__ for each in (inspect, platform, gettext, ipaddress, locale))
"""
    subprocess.run([sys.executable, "-c", code], env=process_environment(), check=True)


def test_a_command_does_not_search_for_garbage_again_and_again() -> None:
    code = """
import gc, sys
import logist.cli.main
program = sys.modules["logist.cli.main"]
program._end_process = lambda exit_code: None
sys.argv = ["logist", "--version"]
try:
    program.main()
except SystemExit:
    before = gc.get_stats()[0]["collections"]
    kept = [[] for _ in range(15_000)]
    assert gc.get_stats()[0]["collections"] - before <= 1
"""
    subprocess.run([sys.executable, "-c", code], env=process_environment(), check=True)


NEVER = (
    "binascii",
    "concurrent.futures",
    "difflib",
    "email",
    "hashlib",
    "inspect",
    "lzma",
    "logging",
    "math",
    "ntpath",
    "ruamel",
    "secrets",
    "selectors",
    "socket",
    "tempfile",
    "tomllib",
    "unicodedata",
    "zlib",
    "logist.agents.clients.",
    "logist.agents.courier.fork_server",
    "logist.agents.function",
    "logist.agents.programs.",
    "logist.agents.scripted",
    "logist.agents.tools.",
    "logist.core.condition.",
    "logist.core.mermaid.",
    "logist.core.sections.",
    "logist.core.workflow.checking",
    "logist.core.workflow.following",
    "logist.installed_files",
    "logist.jobs.archive.",
    "logist.jobs.base.editor_schemas",
    "logist.jobs.base.job_templates",
    "logist.jobs.job_queue",
    "logist.store.job_index",
    "logist.workflows.",
    "logist.workspace.context.",
    "logist.workspace.merge.",
)
"""What only workflows, merges, agents and many jobs need. A name that ends with a dot means the modules of a package."""
UNSENT = ("logist.core.prompt.prompt", "logist.core.relevance.", "logist.core.step.plan")
"""What only a request to an agent needs."""
UNREAD = (
    "logist.agents.courier.ask_files",
    "logist.core.answer.exit_command",
    "logist.core.text.outermost_json",
    "logist.jobs.turn.agent_calls",
)
"""What only an answer needs."""
UNSEARCHED = (
    "logist.agents.sandbox.",
    "logist.core.relevance.occurrences",
    "logist.core.relevance.ranking",
    "logist.jobs.steward.",
    "logist.workspace.context.choosing",
    "logist.workspace.context.searching",
)
"""What only a prompt needs for which files are searched, or an answer of a program, or work that is accepted."""
UNCHANGED = (
    "logist.workspace.checkpoint.",
    "logist.workspace.workspace",
    "subprocess",
    "shutil",
    "fractions",
)
"""What only a command needs that works with files of the workspace."""


def find_loaded(report: str, families: Sequence[str]) -> list[str]:
    names = loaded(report)
    assert "logist.jobs.base.project" in names
    return sorted(
        name
        for name in names
        if any(name.startswith(each.rstrip(".") + ".") or name == each for each in families)
    )


def test_a_command_that_changes_a_job_loads_what_it_calls(run_logist: RunLogist, tmp_path: Path) -> None:
    """Importing all that a command might need took most of its time."""
    assert run_logist("init").code == 0
    create = ("job", "create", "--id", "j1", "--prompt", "do it", "--no-repo")
    answer = ("job", "poststep", "j1", "--response-string", command(evidence_files=["a.txt"]))
    never = [
        name for name in NEVER if name != "logist.workspace.context."
    ]  # its evidence is shown to the reviewer
    for args, unused in [
        (create, (*NEVER, *UNSENT, *UNREAD)),
        (("inbox", "note", "j1", "Look"), (*NEVER, *UNSENT, *UNREAD, *UNCHANGED)),
        (("job", "preview", "j1"), NEVER),
        (answer, (*never, *UNSEARCHED)),
        (answer, (*never, *UNSEARCHED)),
        (("job", "approve", "j1"), (*NEVER, *UNSENT, *UNREAD)),
    ]:
        if args is answer:
            (tmp_path / ".logist" / "jobs" / "j1" / "workspace" / "a.txt").write_text("a", "utf-8")
        ran = run_logist(*args, env=TIMED)
        assert ran.code in (0, 11), talk(ran.err)  # 11: the job waits for approval
        assert (args[:2], find_loaded(ran.err, unused)) == (args[:2], [])


@pytest.mark.deep
def test_no_command_but_a_paid_one_loads_litellm(run_logist: RunLogist, job: str) -> None:
    ran = run_logist("job", "preview", job, env=TIMED)
    assert ran.code == 0, talk(ran.err)
    assert "litellm" not in loaded(ran.err)


def test_a_step_loads_only_what_it_uses(run_logist: RunLogist, tmp_path: Path, job: str) -> None:
    script = tmp_path / "answers.json"
    script.write_text('{"answers": [{"text": "nothing"}]}', "utf-8")
    ran = run_logist("job", "step", job, env=TIMED | {"LOGIST_AGENT": f"scripted:{script}"})
    assert "STUCK" in talk(ran.err) + ran.out
    unused = ("logist.agents.programs", "logist.agents.tools", "logist.workflows", "logist.core.mermaid")
    assert [name for name in loaded(ran.err) if name.startswith(unused)] == []


def test_a_job_is_done_without_pydantic(run_logist: RunLogist, tmp_path: Path) -> None:
    """Building its schemas would take longer than all else that these commands do."""
    done = '{"action": "COMPLETED", "evidence_files": [], "summary_for_supervisor": "Done."}'
    script = tmp_path / "answers.json"
    script.write_text(f'{{"answers": [{{"exit": {done}}}]}}', "utf-8")
    assert run_logist("init").code == 0
    for args, code in [
        (["job", "create", "--id", "j1", "--prompt", "do it", "--no-repo", "--no-review"], 0),
        (["job", "preview", "j1"], 0),
        (["job", "step", "j1"], 11),
        (["job", "approve", "j1"], 0),
        (["job", "verify", "j1"], 0),
        (["job", "create", "--id", "j2", "--prompt", "do it", "--no-repo", "--approval", "none"], 0),
        (["job", "poststep", "j2", "--response-string", done], 0),
    ]:
        ran = run_logist(*args, env=TIMED | {"LOGIST_AGENT": f"scripted:{script}"})
        assert ran.code == code, talk(ran.err)
        assert {name for name in loaded(ran.err) if name.startswith(("pydantic", "jsonschema"))} == set()
