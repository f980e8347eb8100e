"""`logist doctor --report`: what a stranger may read, and nothing else."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from tests.cli.desk import Desk, answer, command

SECRET = "correct-horse-battery"
CONFIG = """
models: {acme: {provider_model: openai/gpt-x, endpoint: "http://127.0.0.1:9/v1", api_key_env: MY_KEY}}
model: acme
limits: {max_attempts: 7}
context: {custom_instructions: "Never tell about project Zeppelin."}
notify: {stuck: "curl https://ada.example.com/hook"}
"""


@pytest.fixture
def home(desk: Desk, tmp_path: Path) -> dict[str, str]:
    """A user `grace`, whose project has a job that is STUCK; its prompt, answer and id are nobody's business."""
    place = tmp_path / "home" / "grace"
    place.mkdir(parents=True)
    env = {
        "HOME": str(place),
        "LOGIST_STEWARD": "grace",
        "MY_KEY": SECRET,
        "LOGIST_LOG_FILE": str(place / "log"),
    }
    desk.script(answer(command("STUCK", summary="The Zeppelin has no gas.")))
    assert (
        desk("job", "create", "--id", "zeppelin-secret", "--prompt", "Fly the Zeppelin.", env=env).code == 0
    )
    assert desk("run", env=env).code == 3
    assert "Zeppelin has no gas" in desk("run", env=env).err
    assert desk("job", "status", f"missing-{SECRET}", env=env).code == 2
    desk.settings(CONFIG)
    return env


def write_report(desk: Desk, env: dict[str, str], *options: str) -> str:
    ran = desk("doctor", "--report", *options, env=env)
    assert "Read it before you attach it to a bug report." in ran.out
    assert f"report  {desk.place}/logist-report.txt" in ran.out
    return (desk.place / "logist-report.txt").read_text("utf-8")


def test_it_has_what_a_bug_needs(desk: Desk, home: dict[str, str]) -> None:
    text = write_report(desk, home)
    assert "logist 0." in text
    assert "python 3." in text
    assert "limits.max_attempts: 7 (project)" in text
    assert "models.acme.provider_model: openai/gpt-x (project)" in text
    assert "max_attempts" in text
    assert "max_concurrent_agents" not in text  # a default
    assert "`logist run` ended after " in text
    assert "STUCK: 1" in text
    assert "ok: python: " in text
    assert "LOGIST_AGENT=scripted:<project>/answers.json" in text
    assert "also set: LOGIST_LOG_FILE, LOGIST_STEWARD" in text
    assert " info job_rested job-1: rests: STUCK (exit code 3)\n" in text
    assert " error error : " in text
    assert (desk.place / "logist-report.txt").stat().st_mode & 0o777 == 0o600


def test_it_has_no_secret_no_name_no_prompt_and_no_content(desk: Desk, home: dict[str, str]) -> None:
    text = write_report(desk, home)
    for private in (
        SECRET,
        "grace",
        "Zeppelin",
        "zeppelin",
        "gas",
        "ada.example.com",
        "curl",
        str(desk.place),
    ):
        assert private not in text, private
    assert home["HOME"] not in text
    assert os.uname().nodename not in text or len(os.uname().nodename) < 3
    if getpass.getuser() != "root":
        assert getpass.getuser() not in text


def test_a_job_that_was_deleted_is_not_named_by_what_the_log_says_of_it(
    desk: Desk, home: dict[str, str]
) -> None:
    assert desk("job", "cancel", "zeppelin-secret", env=home).code == 0
    assert desk("job", "delete", "zeppelin-secret", "--yes", env=home).code == 0
    assert desk("job", "show", "zeppelin-secret", env=home).code == 2
    text = write_report(desk, home)
    assert " info job_rested job-1: rests: STUCK (exit code 3)\n" in text
    assert "job 'job-1' not found" in text
    assert "job '<job>' not found" in text  # it never existed
    assert "zeppelin" not in text


def test_an_existing_file_stays(desk: Desk, home: dict[str, str]) -> None:
    write_report(desk, home)
    ran = desk("doctor", "--report", env=home)
    assert (
        ran.code,
        "the file exists already (choose another name: logist doctor --report FILE)" in ran.err,
    ) == (2, True)
    ran = desk("doctor", "--report", "other.txt", "--json", env=home)
    assert ran.json["data"]["report"] == str(desk.place / "other.txt")
    ran = desk("doctor", "--report", "no/such/directory", env=home)
    assert (ran.code, "can't write the report: No such file or directory" in ran.err) == (1, True)


def test_it_works_where_the_project_does_not(desk: Desk, home: dict[str, str]) -> None:
    desk.settings("limits: {nope: 1}\n")
    (desk.jobs / "zeppelin-secret" / "state.json").write_bytes(b"{")
    (desk.jobs / "zeppelin-secret" / "damaged-on-purpose").touch()
    text = write_report(desk, home)
    assert "the config is invalid" in text
    assert "unreadable: 1" in text
    assert "error: job job-1: " in text


def test_other_homes_addresses_and_hosts_are_replaced(desk: Desk, home: dict[str, str]) -> None:
    from logist.cli.checkup.bug_report import Cleaner
    from logist.cli.checkup.surroundings import surroundings
    from logist.config.environment import Environment

    before = Path.cwd()
    os.chdir(desk.place)
    try:
        cleaner = Cleaner(surroundings(Environment(home), None))
    finally:
        os.chdir(before)
    assert cleaner.clean(f"{desk.jobs}/zeppelin-secret/lock of Grace") == "<jobs>/job-1/lock of <user>"
    assert cleaner.clean(f"{desk.place}/x {home['HOME']}/y") == "<project>/x ~/y"
    assert (
        cleaner.clean("/home/linus/x at 192.0.2.7, linus@example.org")
        == "/home/<user>/x at <address>, <email>"
    )
    assert (
        cleaner.clean("a zeppelin-secret2 and not-zeppelin-secret")
        == "a zeppelin-secret2 and not-zeppelin-secret"
    )
