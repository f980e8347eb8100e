"""What every command shares: help, usage errors, streams, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from logist import __version__
from logist.agents.sandbox import processes
from logist.cli.main import JOB, ROLE, ROOT, WORKFLOW, _translate_broken_pipes
from tests import support
from tests.cli.desk import Desk, answer
from tests.support import RunLogist, logist_command, process_environment, run_as_process


def test_version(desk: Desk) -> None:
    assert desk("--version") == (0, f"logist {__version__}\n", "")


@pytest.mark.parametrize("args", [[], ["job"], ["role"], ["workflow"], ["config"]])
def test_a_group_alone_shows_its_help_and_exits_2(desk: Desk, args: list[str]) -> None:
    ran = desk(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"Usage: {' '.join(['logist', *args])} [OPTIONS] COMMAND")
    assert desk(*args, "--help").out == ran.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["jb"], "error: No such command 'jb'."),
        (["job", "lst"], "error: No such command 'lst'."),
        (["job", "list", "--foo"], "error: No such option '--foo'."),
        (["job", "status", "a", "b"], "error: Got unexpected extra argument (b)"),
        (["job", "step", "--wait", "-1"], "error: Invalid value for '--wait'"),
        (["completion"], "error: Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish (logist"),
    ],
)
def test_a_wrong_word_is_one_line(desk: Desk, args: list[str], message: str) -> None:
    ran = desk(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(message)
    assert ran.err.endswith(" --help)\n")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["staus"], "`logist status` or `logist stats`"),
        (["Status", "j1"], "`logist status` or `logist stats`"),
        (["jobs", "list"], "`logist job`"),
        (["job", "staus"], "`logist job status`"),
        (["workflow", "lst"], "`logist workflow list`"),
        (["help"], "`logist --help`"),
        (["hlep"], "`logist --help`"),
        (["version"], "`logist --version`"),
        (["kill"], "`logist cancel`"),
        (["job", "stop"], "`logist job suspend` or `logist job cancel`"),
        (["job", "help"], "`logist job --help`"),
        (["job", "init"], "`logist init`"),
        (["validate"], "`logist role validate` or `logist workflow validate`"),
    ],
)
def test_a_mistyped_command_names_the_one_that_was_meant(desk: Desk, args: list[str], meant: str) -> None:
    ran = desk(*args)
    assert (ran.code, ran.out) == (2, "")
    assert f". Did you mean {meant}? (logist" in ran.err


def test_an_unknown_agent_names_the_place_that_chose_it(desk: Desk) -> None:
    env = {"LOGIST_AGENT": "codx"}
    assert desk("job", "list", env=env).code == 0
    desk.create()
    assert desk("job", "step", "j1", env=env).err.startswith("error: LOGIST_AGENT: unknown agent 'codx'")
    assert desk("job", "step", "j1", "--agent", "codx").err.startswith("error: --agent: unknown agent 'codx'")


def test_a_pasted_comment_is_recognized(desk: Desk) -> None:
    """In bash, a comment does not arrive."""
    assert "zsh passes comments on" in desk("job", "list", "#", "all", "jobs").err


def test_a_word_like_no_command_gets_no_advice(desk: Desk) -> None:
    assert desk("xyzzy").err == "error: No such command 'xyzzy'. (logist --help)\n"


def test_the_commands_of_a_job_work_without_the_word_job(desk: Desk) -> None:
    assert set(JOB) & set(ROOT) == {"config", "replay", "role", "run"}, "the help of logist names these"
    for name in sorted(set(JOB) - set(ROOT)):
        assert desk(name, "--help").out == desk("job", name, "--help").out.replace("logist job", "logist", 1)
    desk.create()
    assert desk("status", "j1") == desk("job", "status", "j1")
    assert desk("list", "--json") == desk("job", "list", "--json")
    assert desk("cancel", "j1", "--note").err.endswith("(logist cancel --help)\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--no-color", "job", "status", "j1"],
        ["job", "--no-color", "status", "j1"],
        ["job", "status", "j1", "--no-color"],
        ["status", "--no-color", "j1"],
        ["job", "status", "j2", "--no-color"],
        ["job", "status", "--foo", "--no-color"],
    ],
)
def test_no_color_works_anywhere(desk: Desk, args: list[str]) -> None:
    desk.create()
    ran = desk(*args, env={"FORCE_COLOR": "1"})
    assert "\x1b[" not in ran.out + ran.err
    without = desk(*[word for word in args if word != "--no-color"], env={"FORCE_COLOR": "1"})
    assert "\x1b[" in without.out + without.err
    assert without.code == ran.code


@pytest.mark.parametrize("args", [["--plain", "show", "j1"], ["job", "show", "j1", "--plain"]])
def test_plain_prints_the_lines_of_a_pipe(desk: Desk, args: list[str]) -> None:
    desk.create()
    seen = desk.on_terminal(*args, env={"FORCE_COLOR": "1"})
    assert seen == desk("job", "show", "j1").out
    assert desk.on_terminal("job", "show", "j1", env={"LOGIST_PLAIN": "1"}) == seen
    assert "─" in desk.on_terminal("job", "show", "j1")


def test_plain_draws_nothing_twice(desk: Desk) -> None:
    desk.script(answer())
    desk.create()
    for args in (["step", "j1"], ["stats"], ["watch"], ["diff", "j1"]):
        seen = desk.on_terminal(*args, "--plain", stdin_too=True, env={"PAGER": "false"})
        assert seen
        assert not re.search(r"[\x1b\x07\x08\r]", seen), args


def test_the_version_after_a_command(desk: Desk) -> None:
    assert desk("job", "status", "--version") == desk("--version")
    assert "--version" not in desk("job", "status", "--help").out


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("args", [["preview", "j2"], ["history", "j1", "--raw", "2"]])
def test_raw_text_ends_its_line_on_a_terminal_only(desk: Desk, args: list[str]) -> None:
    desk.script(answer("?"))
    desk.create("j1")
    desk.create("j2")
    desk("job", "step", "j1")
    exact = desk("job", *args).out
    last = exact.rpartition("\n")[2]
    assert last
    assert f"{last}\n" in desk.on_terminal("job", *args, env={"NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("args", "help_of"),
    [
        (["whatif", "--set"], "logist whatif"),
        (["job", "history", "job", "--diff", "2"], "logist job history"),
        (["config", "show", "--jobs-dir"], "logist config show"),
    ],
)
def test_an_option_without_its_value_names_the_help_of_its_command(
    desk: Desk, args: list[str], help_of: str
) -> None:
    assert desk(*args).err.endswith(f"({help_of} --help)\n")


def test_a_wrong_word_in_json(desk: Desk) -> None:
    ran = desk("job", "list", "--json", "--foo")
    assert (ran.code, ran.err) == (2, "")
    (found,) = ran.json["diagnostics"]
    assert ran.json["data"] is None
    assert (found["severity"], found["code"], found["fix"]) == ("error", "usage", "logist job list --help")


def test_help_names_every_command_and_none_is_missing(desk: Desk) -> None:
    for group, entries in ((), ROOT), (("job",), JOB), (("role",), ROLE), (("workflow",), WORKFLOW):
        text = desk(*group, "--help").out
        for name in entries:
            assert f"\n  {name} " in text
            assert desk(*group, name, "--help").code == 0


@pytest.mark.parametrize("group", [[], ["job"], ["role"], ["workflow"]])
def test_help(desk: Desk, group: list[str], snapshot: SnapshotAssertion) -> None:
    assert desk(*group, "-h").out == snapshot


@pytest.mark.parametrize("args", [["job", "list"], ["job", "list", "--json"], ["job", "history", "j1"]])
def test_output_that_cannot_be_written_is_an_error(desk: Desk, args: list[str]) -> None:
    desk.create()
    with open("/dev/full", "wb") as full:
        done = desk.started(*args, stdout=full, stderr=subprocess.PIPE)
        _, told = done.communicate()
    assert done.returncode == 1
    assert told == b"error: standard output: No space left on device (check the disk and the permissions)\n"


def test_a_reader_that_goes_away_is_no_error(desk: Desk) -> None:
    desk.create()
    read, write = os.pipe()
    os.close(read)
    done = desk.started("job", "history", "j1", "--jsonl", stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, told = done.communicate()
    assert (done.returncode, told) == (0, b"")


def unread(desk: Desk, *args: str, stdout: bool = True, stderr: bool = False) -> tuple[int, bytes]:
    """The exit code of a command whose output nobody reads, and what it said where somebody does."""
    read, write = os.pipe()
    os.close(read)
    kept = subprocess.PIPE
    started = desk.started(*args, stdout=write if stdout else kept, stderr=write if stderr else kept)
    os.close(write)
    out, err = started.communicate()
    return started.returncode, (out or b"") + (err or b"")


def read_waiting(code: int, errors: bytes) -> tuple[int, list[str]]:
    """The exit code of a run, and the jobs that it says are waiting for a person, which were not run."""
    return code, re.findall(r"^warning: (\w+): [A-Z_]+, waits for", errors.decode(), re.MULTILINE)


@pytest.mark.deep
@pytest.mark.parametrize("mode", [[], ["--json"]])
def test_the_exit_code_is_told_to_nobody_too(desk: Desk, mode: list[str]) -> None:
    desk.script(answer("?"))
    for job_id in ("a", "b", "c"):
        desk.create(job_id)
    assert unread(desk, "job", "step", "a", *mode) == (3, b"")
    assert unread(desk, "job", "run", "b", *mode) == (3, b"")
    waiting = [] if mode else ["a", "b"]
    assert read_waiting(*unread(desk, "run", "--parallel", "1", *mode)) == (3, waiting)
    assert {desk.state(job_id)["status"] for job_id in "abc"} == {"STUCK"}
    assert unread(desk, "job", "step", "nope", *mode)[0] == 2
    assert unread(desk, "job", "approve", "a", *mode)[0] == 8


def test_work_goes_on_when_nobody_reads(desk: Desk) -> None:
    desk.create("one")
    desk.create("two")
    assert unread(desk, "job", "run", "one") == (11, b"")
    assert read_waiting(*unread(desk, "run", "--parallel", "1")) == (11, ["one"])
    assert {desk.state(job_id)["status"] for job_id in ("one", "two")} == {"APPROVAL_REQUIRED"}


@pytest.mark.deep
def test_talk_that_nobody_reads(desk: Desk) -> None:
    desk.create()
    code, out = unread(desk, "job", "poststep", "j1", "--response-string", "?", stdout=False, stderr=True)
    assert (code, out.splitlines()[0]) == (
        3,
        b"#2 Worker: no valid answer (answer supplied by hand), PENDING -> STUCK",
    )
    assert unread(desk, "job", "status", "nope", stdout=False, stderr=True) == (2, b"")


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["job", "--help"], ["job", "step", "--help"]])
def test_help_that_nobody_reads(desk: Desk, args: list[str]) -> None:
    assert unread(desk, *args) == (0, b"")


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_help_that_nobody_reads_without_buffers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    """As Python writes in most containers."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    assert unread(desk, *args) == (0, b"")


@pytest.mark.parametrize("size", [10, 5000, 20_000])
def test_the_rest_of_the_output_on_a_full_disk(size: int) -> None:
    code = f"""
import sys
import logist.cli.main

main = sys.modules["logist.cli.main"]  # logist.cli.main is the function
main.run_command_line = lambda args: sys.stdout.write("x" * {size}) and 0
main.main()
"""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=process_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode != 0, done.stderr


def test_a_profiler_prints_what_it_has_measured(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cProfile", "-m", "logist", "--version"],
        cwd=tmp_path,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "function calls" in done.stdout


@pytest.mark.deep_beyond(1)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(desk: Desk, closed: str) -> None:
    desk.script(answer("?"))
    desk.create()
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *logist_command(), "job", "step", "j1"],
        cwd=desk.place,
        env=process_environment() | desk.env,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, b"")
    assert desk("job", "verify", "j1").code == 0


def test_a_broken_pipe_inside_is_no_reader_that_has_left() -> None:
    with (
        pytest.raises(RuntimeError, match="a child process closed its pipe unexpectedly"),
        _translate_broken_pipes(),
    ):
        raise BrokenPipeError


@pytest.mark.deep
def test_standard_input_is_not_read_unasked(desk: Desk) -> None:
    desk.create()
    read, write = os.pipe()  # never written, never closed: who reads it waits for ever
    for args in (["job", "step", "j1"], ["job", "list"], ["job", "approve", "j1"], ["job", "create"]):
        done = desk.started(*args, stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert done.wait() in (0, 2, 8)
    os.close(read)
    os.close(write)


def test_a_directory_that_is_gone(desk: Desk) -> None:
    gone = desk.place / "gone"
    gone.mkdir()
    script = 'cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *logist_command(), "job", "list"],
        cwd=desk.place,
        env=process_environment() | desk.env,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == b"error: the current directory no longer exists (cd to another directory)\n"


@pytest.mark.parametrize(
    ("env", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_in_a_pipe(desk: Desk, env: dict[str, str], colored: bool) -> None:
    desk.create()
    assert ("\x1b[" in desk("job", "status", "j1", env=env).out) is colored


@pytest.mark.parametrize(
    ("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_on_a_terminal(desk: Desk, env: dict[str, str], colored: bool) -> None:
    desk.create()
    assert ("\x1b[" in desk.on_terminal("job", "status", "j1", env=env)) is colored


def test_a_directory_where_a_file_belongs_is_one_line(desk: Desk) -> None:
    (desk.home / "config.yaml").mkdir()
    ran = desk("config", "show")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith(f"error: {desk.home / 'config.yaml'}: ")
    assert ran.err.count("\n") == 1


def test_arguments_that_are_no_text(desk: Desk) -> None:
    name = os.fsdecode(b"\xff\x1b[31m")
    for mode in ([], ["--json"]):
        done = desk.started("job", "status", name, *mode, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = done.communicate()
        assert done.returncode == 2
        assert b"\x1b" not in out + err


@pytest.mark.parametrize(
    "args",
    [
        ["job", "cancel", "j1", "--note"],
        ["job", "create", "--prompt"],
        ["job", "create", "--prompt", "x", "--repo"],
        ["job", "list", "--jobs-dir"],
        ["job", "poststep", "j1", "--response-string"],
        ["job", "replay", "--archive"],
        ["job", "step", "j1", "--agent"],
        ["job", "config", "j1", "--set"],
        ["role", "show"],
        ["demo"],
    ],
)
def test_bytes_that_are_no_utf8_are_refused(desk: Desk, args: list[str]) -> None:
    desk.create()
    before = desk.tree()
    done = desk.started(*args, os.fsdecode(b"k=\xff"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.communicate() == (
        b"",
        b"error: k=\\udcff: this argument is not UTF-8 text (use UTF-8)\n",
    )
    assert done.returncode == 2
    assert desk.tree() == before


@pytest.mark.deep
def test_a_place_whose_name_is_no_utf8(desk: Desk) -> None:
    place = desk.place / os.fsdecode(b"\xff")
    place.mkdir()
    support.make_repository(place / "repo")
    create = ["job", "create", "--id", "j1", "--prompt", "x"]
    for args in ([*create, "--jobs-dir", "jobs"], [*create, "--repo", "repo"]):
        ran = support.run_as_process(*args, cwd=place)
        assert (ran.code, ran.out) == (2, "")
        assert "is not UTF-8 text" in ran.err
        assert ran.err.count("\n") == 1
    assert list(desk.jobs.iterdir()) == []


def test_text_from_an_agent_cannot_steer_the_terminal(desk: Desk) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\u202egnol\u200b"
    desk.script({"text": f"nothing {evil}"}, {"text": "x"})
    desk.create(prompt=f"Do {evil} it.")
    desk("job", "step", "j1")
    for args in (["list"], ["status", "j1", "-v"], ["show", "j1"], ["history", "j1"]):
        out = desk("job", *args, env={"FORCE_COLOR": "0"}).out
        assert not {"\x1b", "\x07", "\u202e", "\u200b"} & set(out)
    seen = desk.on_terminal("job", "history", "j1", "--raw", "2", env={"NO_COLOR": "1"})
    assert "\x1b" not in seen
    assert desk("job", "history", "j1", "--raw", "2").out == f"nothing {evil}"


def test_without_a_project_the_home_of_the_user_is_enough(cli: RunLogist, tmp_path: Path) -> None:
    ran = cli("job", "list", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "")
    assert "/xdg/data/logist/jobs: no jobs found" in ran.err


def test_a_decision_of_a_steward_is_no_answer_to_give_again(cli: RunLogist) -> None:
    cli("init")
    cli("job", "create", "--id", "j", "--prompt", "x", "--no-repo")
    done = cli("job", "poststep", "j", "--from-history", "1", "--json")
    assert (done.code, "is not an answer: its kind is create" in done.json["diagnostics"][0]["message"]) == (
        2,
        True,
    )


def test_an_output_can_not_pass_for_a_line_of_ours(cli: RunLogist) -> None:
    cli("init")
    cli("job", "create", "--id", "j", "--prompt", "x", "--no-repo")
    answer = {
        "action": "COMPLETED",
        "evidence_files": [],
        "summary_for_supervisor": "s",
        "output": "a\nnext: b",
    }
    cli("job", "poststep", "j", "--response-string", json.dumps(answer))
    assert "next: b" not in cli("job", "show", "j").out.splitlines()


@pytest.mark.deep
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_is_a_document_too(number: int, code: int, tmp_path: Path) -> None:
    run_as_process("init", cwd=tmp_path)
    run_as_process("job", "create", "--id", "j", "--prompt", "x", "--no-repo", cwd=tmp_path)
    os.mkfifo(tmp_path / "answer")
    waiting = subprocess.Popen(
        [*logist_command(), "job", "poststep", "j", "--response-file", "answer", "--json"],
        cwd=tmp_path,
        env=process_environment(),
        stdout=subprocess.PIPE,
    )
    writer = os.open(tmp_path / "answer", os.O_WRONLY)  # opens when the command has
    # Only a read that waits is ended by a signal: one that is about to begin would wait for what is never written.
    while (found := processes.read_process(waiting.pid)) is None or found.state != "S":
        assert waiting.poll() is None
    waiting.send_signal(number)
    out, _ = waiting.communicate()
    os.close(writer)
    assert waiting.returncode == code
    assert json.loads(out)["diagnostics"][0]["code"] == "stopped"


@pytest.mark.parametrize("platform", ["win32", "cygwin"])
def test_native_windows_is_refused_in_one_line(platform: str) -> None:
    """Before anything is imported that Windows does not have."""
    code = (
        f"import sys; sys.platform = {platform!r}\n"
        "for name in ('fcntl', 'grp', 'pwd', 'resource', 'termios'): sys.modules[name] = None\n"
        "from logist.__main__ import main"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (8, "")
    assert done.stderr == (
        "error: Logist does not run on native Windows: use WSL2 (Windows Subsystem for Linux)\n"
    )


def test_what_waits_for_the_end_of_the_process_runs(tmp_path: Path) -> None:
    """A command ends without taking apart what it has loaded, but it must not skip anything else."""
    code = (
        "import atexit, sys; sys.argv = ['logist', '--version']\n"
        "atexit.register(lambda: print('cleaned up'))\n"
        "from logist.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"logist {__version__}", "cleaned up"]


def test_a_thread_that_still_works_ends_before_the_process() -> None:
    code = (
        "import sys, threading; sys.argv = ['logist', '--version']\n"
        "threading.Thread(target=lambda: (threading.main_thread().join(), print('done'))).start()\n"
        "from logist.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "done")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--version"], ["job", "list", "--json"]], ids=" ".join)
def test_output_that_has_no_room_is_an_error(tmp_path: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "logist", *words], stdout=full, cwd=tmp_path, check=False
        )
    assert done.returncode != 0
