"""`logist doctor`: the machine and the place; the faults of jobs are in test_doctor_faults.py."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from shlex import join
from typing import Any

import pytest

from logist.agents import sandbox
from logist.cli.checkup import project_checks
from logist.jobs.doctor import job_checks
from logist.store import JobDir, list_jobs, lock
from tests import support
from tests.cli.desk import Desk


def rows(desk: Desk, *args: str, code: int = 0) -> list[dict[str, Any]]:
    ran = desk("doctor", "--json", *args)
    assert ran.code == code, ran.out
    assert ran.json["data"]["ok"] is (code == 0)
    found: list[dict[str, Any]] = ran.json["data"]["checks"]
    return found


def checks(desk: Desk, *args: str, code: int = 0) -> dict[str, dict[str, Any]]:
    return {check["check"]: check for check in rows(desk, *args, code=code)}


@pytest.mark.parametrize("deep", [[], ["--deep"]])
@pytest.mark.parametrize("fix", [[], ["--fix"]])
def test_all_is_well_and_nothing_is_changed(desk: Desk, deep: list[str], fix: list[str]) -> None:
    desk.create()
    desk("job", "step", "j1")
    before = desk.tree()
    ran = desk("doctor", *deep, *fix)
    assert (ran.code, ran.err) == (0, "")
    for line in (
        "python: 3.",
        "git: 2.",
        f"home: {desk.home}",
        "config: all defaults",
        "job j1: 2 interactions",
    ):
        assert f"ok      {line}" in ran.out
    assert "roles: Actor, Commander, " in ran.out
    faults = [row for row in rows(desk, *deep, *fix) if row["level"] != "ok"]
    assert {row["check"] for row in faults} <= {"litellm", "sandbox", "disk"}
    assert desk.tree() == before


def test_a_new_job_has_one_interaction(desk: Desk) -> None:
    desk.create()
    assert "ok      job j1: 1 interaction\n" in desk("doctor").out


def test_a_config_and_a_role_that_do_not_validate_keep_nobody_from_looking(desk: Desk) -> None:
    desk.create()
    desk.settings("limts: {}\n")
    (desk.home / "roles").mkdir()
    (desk.home / "roles" / "Poet.yaml").write_text("name: Poet\ninstructions: i\nllm_model: m\n", "utf-8")
    found = checks(desk, "--deep", code=5)
    assert "did you mean `limits`" in found["config"]["fix"]
    assert f"{desk.home / 'config.yaml'}:1: unknown key `limts`" in found["config"]["message"]
    assert "`description` is missing" in found["roles"]["message"]
    assert found["job j1"]["level"] == "ok"
    assert desk("job", "verify", "j1").code == 0


def test_one_damaged_job_hides_no_other(desk: Desk) -> None:
    desk.create("bad")
    desk.create("good")
    (desk.job("bad") / "state.json").write_text("{", "utf-8")
    found = checks(desk, code=10)
    assert (found["job bad"]["level"], found["job good"]["level"]) == ("error", "ok")
    assert found["job bad"]["fix"] == "logist doctor --fix"


def test_advice_is_about_the_same_jobs(desk: Desk) -> None:
    desk.create()
    (desk.job() / "state.json").unlink()
    desk.jobs.rename(desk.place / "other jobs")
    fix = checks(desk, "--jobs-dir", "other jobs")["job j1"]["fix"]
    assert fix == "logist doctor --fix --jobs-dir 'other jobs'"
    ran = desk("doctor", "--fix", "--jobs-dir", "other jobs")
    assert "fixed   job j1: state.json is missing: recreated from the history" in ran.out
    assert (desk.place / "other jobs" / "j1" / "state.json").exists()


def test_a_job_that_somebody_works_on_is_not_touched(desk: Desk) -> None:
    desk.create()
    shutil.rmtree(desk.job() / "logs")
    (desk.job() / ".state.json.0123456789ab.new").write_bytes(b"{")
    job = JobDir.open(desk.jobs, "j1")
    held = lock.acquire_lock(job.path, command="job step", since="2026-01-02T03:04:05Z")
    before = desk.tree()
    ran = desk("doctor", "--fix")
    assert desk.tree() == before
    held.release()
    assert ran.code == 0
    assert "warning job j1: not repaired: the job is busy: job step" in ran.out
    assert "half-written" not in ran.out  # it may be at it
    assert "half-written" in desk("doctor", "--fix").out


def test_many_faults_at_once_are_mended_in_one_go(desk: Desk) -> None:
    desk.create()
    desk("job", "step", "j1")
    job = desk.job()
    whole = (job / "state.json").read_bytes(), (job / "jobHistory.json").read_bytes()
    (job / "state.json").write_text("{", "utf-8")
    with open(job / "jobHistory.json", "ab") as file:
        file.write(b"{")
    for name in ("logs", "workspace"):
        shutil.rmtree(job / name)
    for name in ("job.yaml", "lock"):
        (job / name).unlink()
    (job / "git" / "HEAD.lock").touch()
    (job / "git").chmod(0o755)
    ran = desk("doctor", "--fix")
    assert (ran.code, ran.out.count("fixed   job j1")) == (0, 8)
    assert "ok      job j1: 2 interactions" in ran.out
    assert ((job / "state.json").read_bytes(), (job / "jobHistory.json").read_bytes()) == whole
    assert (desk("job", "verify", "j1").code, desk("job", "step", "j1").code) == (0, 11)
    assert "fixed" not in desk("doctor", "--fix").out


def test_what_can_not_be_kept_is_not_mended(desk: Desk) -> None:
    desk.create()
    (desk.job() / "state.json").write_text("{", "utf-8")
    (desk.home / "backup").write_text("in the way", "utf-8")
    ran = desk("doctor", "--fix")
    assert (ran.code, "not repaired: can't read or write: Not a directory" in ran.out) == (10, True)
    assert (desk.job() / "state.json").read_text() == "{"


def test_a_job_in_the_making_is_left_to_its_maker(desk: Desk) -> None:
    desk.jobs.chmod(0o700)
    with JobDir.create_job(desk.jobs, "j1") as job:
        os.utime(job.path, (1, 1))
        for fix in ([], ["--fix"]):
            assert ".new-" not in desk("doctor", *fix).out
        assert job.history_file.exists()
    assert list(list_jobs(desk.jobs)) == ["j1"]


def test_the_backup_is_told_private_and_never_overwritten(desk: Desk) -> None:
    for turn in range(2):
        selected = desk.home / "current_job"
        selected.write_text(f"gone{turn}\n", "utf-8")
        ran = desk("doctor", "--fix", "--json")
        backup = Path(ran.json["data"]["backup"])
        assert ran.json["data"]["fixed"][0]["check"] == "selected"
        assert (backup / "current_job").read_text() == f"gone{turn}\n"
        assert f"moving {selected}" in (backup / "what.txt").read_text()
        assert not selected.exists()
        assert (backup.parent.stat().st_mode & 0o777, backup.stat().st_mode & 0o777) == (0o700, 0o700)
    assert len(list((desk.home / "backup").iterdir())) == 3
    assert (desk.home / "backup" / ".gitignore").read_text() == "*\n"


def test_no_git_and_an_old_one(desk: Desk, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    assert "can't run git: " in desk("doctor", env={"PATH": str(programs)}).out
    git = programs / "git"
    git.write_text("#!/bin/sh\necho git version 2.20.1\n", "utf-8")
    git.chmod(0o755)
    ran = desk("doctor", env={"PATH": f"{programs}{os.pathsep}/usr/bin:/bin"})
    assert (ran.code, "warning git: 2.20.1 is older" in ran.out) == (0, True)


@pytest.mark.parametrize(
    ("kind", "detail", "level", "fix", "says"),
    [
        ("bubblewrap", "bubblewrap: /usr/bin/bwrap works", "ok", None, "/usr/bin/bwrap works"),
        (
            "landlock",
            "landlock: version 7 works",
            "warning",
            "apt install bubblewrap",
            "only Landlock is available",
        ),
        (
            "none",
            "landlock: this kernel has none",
            "warning",
            "apt install bubblewrap",
            "can access everything you can",
        ),
    ],
)
def test_each_sandbox(kind: sandbox.Kind, detail: str, level: str, fix: str | None, says: str) -> None:
    found = project_checks.describe_sandbox(sandbox.Means(kind, (detail,)))
    assert (found.check, found.level, found.fix, found.exit_code) == ("sandbox", level, fix, 0)
    assert says in found.message
    assert detail in found.message


def test_a_sandbox_in_which_agent_programs_need_the_network() -> None:
    means = sandbox.Means("bubblewrap", ("bubblewrap: /usr/bin/bwrap works",))
    found = project_checks.describe_sandbox(means, "can't connect it: Operation not permitted")
    assert (found.level, found.exit_code) == ("warning", 0)
    assert found.message == "bubblewrap: /usr/bin/bwrap works; can't connect it: Operation not permitted"
    assert found.fix == "set `network: true` in the roles of agent programs"


def test_agent_programs_that_are_installed(tmp_path: Path) -> None:
    assert "no agent program" in project_checks.describe_programs(str(tmp_path)).message
    for name in ("codex", "aider", "codec"):
        (tmp_path / name).touch(0o755)
    assert project_checks.describe_programs(str(tmp_path)).message == "aider, codex"


def test_the_sandbox_of_this_machine(desk: Desk) -> None:
    found, means = checks(desk)["sandbox"], sandbox.detect_sandbox()
    assert (found["level"] == "ok") is (means.kind == "bubblewrap")
    assert all(detail in found["message"] for detail in means.details)


def test_what_is_not_there_yet(desk: Desk) -> None:
    desk.jobs.rmdir()
    assert "doesn't exist yet" in checks(desk)["jobs"]["message"]
    assert not desk.jobs.exists()


MODEL_WITH_KEY = (
    "models: {m: {provider_model: p/m, api_key_env: M_KEY, input_price: 0.0, output_price: 0.0}}\n"
)
ROLE = "name: %s\ndescription: d\ninstructions: i\nllm_model: m\n"


def with_model(desk: Desk, settings: str = "") -> None:
    """A project whose two roles use a model that needs a key."""
    desk.settings(MODEL_WITH_KEY + "roles: {default: Doer}\nreview: {role: Judge}\n" + settings)
    (desk.home / "roles").mkdir()
    for name in ("Doer", "Judge"):
        (desk.home / "roles" / f"{name}.yaml").write_text(ROLE % name, "utf-8")
    assert desk("trust", "--yes").code == 0


def agent_findings(desk: Desk, **env: str) -> tuple[int, list[dict[str, Any]]]:
    ran = desk("doctor", "--json", env={"LOGIST_AGENT": "", **env})
    found = [row for row in ran.json["data"]["checks"] if row["check"] in ("agent", "config")]
    return ran.code, [row for row in found if row["level"] != "ok"]


def test_no_step_can_work_without_a_key(desk: Desk) -> None:
    with_model(desk)
    code, [found] = agent_findings(desk)
    assert (code, found["level"]) == (5, "error")
    assert found["message"] == "missing API key for the model m: M_KEY is not set (roles: Doer, Judge)"
    assert found["fix"] == "set M_KEY in the environment"
    ran = desk("doctor", env={"LOGIST_AGENT": "", "M_KEY": "dummy-value-of-a-key"})
    assert (ran.code, "dummy-value" in ran.out) == (0, False)


def test_a_reviewer_without_a_key_is_a_warning(desk: Desk) -> None:
    with_model(desk)
    (desk.home / "config.yaml").write_text(
        MODEL_WITH_KEY.replace("}}", "}, n: {provider_model: p/n, input_price: 0.0, output_price: 0.0}}")
        + "roles: {default: Doer}\nreview: {role: Judge}\n",
        "utf-8",
    )
    (desk.home / "roles" / "Doer.yaml").write_text((ROLE % "Doer").replace(": m", ": n"), "utf-8")
    assert desk("trust", "--yes").code == 0
    code, [found] = agent_findings(desk)
    assert (code, found["level"], "(roles: Judge)" in found["message"]) == (0, "warning", True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("agent: cluade\n", "unknown agent `cluade`"),
        ("agent: codex\n", "can't run the agent codex: codex not found on PATH"),
        ("roles: {default: Nobody}\n", "`roles.default` names the unknown role `Nobody`"),
        ("models: {}\nroles: {default: Doer}\n", "unknown model `other`"),
        (
            "allow_unknown_price: false\nroles: {default: Free}\n",
            "unknown price of the model p/free: steps that need it are refused",
        ),
    ],
)
def test_what_keeps_every_step_from_working_is_an_error(desk: Desk, settings: str, message: str) -> None:
    desk.settings(settings)
    (desk.home / "roles").mkdir()
    for name, model in (("Doer", "other"), ("Free", "p/free")):
        (desk.home / "roles" / f"{name}.yaml").write_text((ROLE % name).replace(": m", f": {model}"), "utf-8")
    desk("trust", "--yes")
    keys = dict.fromkeys(("XAI_API_KEY", "GEMINI_API_KEY"), "dummy-value-of-a-key")
    code, found = agent_findings(desk, **keys)
    assert code == 5
    assert any(message in row["message"] for row in found if row["level"] == "error"), found


class Mounts:
    """A namespace of mounts of its own, in which a disk can be full; root's, or one's own where users may."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        probe = [*self.unshare, "mount", "-t", "tmpfs", "none", str(desk.jobs)]
        if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode:
            pytest.skip("no mounts may be made here")

    def doctor(self, before: str, *args: str) -> str:
        """What doctor says after these commands of the shell, `$JOBS` being the directory of the jobs."""
        script = f"{before}\nexec {join([*support.logist_command(), 'doctor', *args])}"
        env = support.process_environment() | self.desk.env | {"JOBS": str(self.desk.jobs)}
        command = [*self.unshare, "sh", "-ec", script]
        done = subprocess.run(command, cwd=self.desk.place, env=env, capture_output=True, check=False)
        return (done.stdout + done.stderr).decode()


def test_a_disk_that_is_nearly_full(desk: Desk) -> None:
    said = Mounts(desk).doctor('mount -t tmpfs -o size=60m none "$JOBS"')
    assert "warning disk: only 62.9 MB free: " in said
    said = Mounts(desk).doctor('mount -t tmpfs -o size=4m none "$JOBS"')
    assert "warning disk: no step begins until there is more space: 4.2 MB are left on the disk, and" in said


def test_a_disk_without_inodes(desk: Desk) -> None:
    fill = 'n=0; while touch "$JOBS/.$n" 2> /dev/null; do n=$((n+1)); done'
    said = Mounts(desk).doctor(f'mount -t tmpfs -o size=200m,nr_inodes=20 none "$JOBS"\n{fill}')
    assert "warning disk: no free inodes, " in said
    assert "MB free" not in said


def test_a_read_only_file_system(desk: Desk) -> None:
    desk.create()
    said = Mounts(desk).doctor('mount --bind "$JOBS" "$JOBS"\nmount -o remount,ro,bind "$JOBS"')
    assert f"error   jobs: {desk.jobs} is on a read-only file system" in said
    assert "ok      job j1" in said


def test_a_network_file_system(desk: Desk) -> None:
    """The kernel's table of mounts, as it is where the file system is nfs."""
    table = desk.place / "mounts"
    said = Mounts(desk).doctor(
        f"sed 's/ - [a-z0-9]* / - nfs4 /' /proc/self/mountinfo > {table}\nmount --bind {table} /proc/$$/mountinfo"
    )
    assert "jobs is on a network file system (nfs4): file locks there don't work between machines" in said


def test_a_backup_on_another_file_system(desk: Desk) -> None:
    inside = 'mkdir -p "$JOBS/.new-a-1/b"; echo x > "$JOBS/.new-a-1/b/c"; ln -s c "$JOBS/.new-a-1/b/d"'
    said = Mounts(desk).doctor(
        f'mount -t tmpfs none "$JOBS"\n{inside}; touch -d 2020-01-01 "$JOBS/.new-a-1"', "--fix"
    )
    assert "fixed   jobs: .new-a-1 was left by a killed command" in said
    assert said.count(".new-a-1") == 1
    [backup] = (desk.home / "backup").glob("2*")
    kept = backup / "jobs" / ".new-a-1" / "b"
    assert ((kept / "c").read_text(), os.readlink(kept / "d")) == ("x\n", "c")


@pytest.mark.parametrize("table", [project_checks.PROJECT_CHECKS, job_checks.JOB_CHECKS])
def test_every_row_has_a_name_of_its_own_and_says_what_it_repaired(table: Any) -> None:
    assert len({check.name for check in table}) == len(table)
    assert [check.name for check in table if (check.repair is None) != (check.repaired == "")] == []


def test_an_unfinished_scrub_is_finished_without_a_copy(desk: Desk) -> None:
    desk.create()
    left = desk.jobs / ".scrubs" / "0123456789ab" / "j1"
    left.mkdir(parents=True)
    (left / "a.txt").write_text("a secret", "utf-8")
    assert "`job scrub` was killed" in desk("doctor").out
    assert (left / "a.txt").exists()
    desk("doctor", "--fix")
    assert not (desk.jobs / ".scrubs").exists()
    assert not any("a secret" in path.read_text("utf-8", "replace") for path in desk.home.rglob("a.txt"))
