"""What only works on Linux is refused on an emulated Mac, before anything is paid, with what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.desk import answer, command
from tests.loopback import Loopback
from tests.macos.mac import Mac

SILENT = "[read_files, write_files, create_files, delete_files]"
CHECK = "review:\n  checks:\n    tests: {severity: error, command: 'true'}\n"
SETUP = "workspace:\n  setup:\n    commands: ['true']\n"
PROGRAM = "agent: claude\n"


@pytest.fixture
def server(mac: Mac) -> Iterator[Loopback]:
    """A model on this machine, and a job that has not been asked yet."""
    with Loopback({"text": command()}, {"text": command()}) as server:
        assert mac.run("init").code == 0
        mac.use_model(server.url)
        created = mac.run("job", "create", "--id", "j1", "--no-repo", "--prompt", "Do it.")
        assert created.code == 0, created.err
        yield server


def allow_no_commands(mac: Mac, *roles: str) -> None:
    for role in roles:
        assert mac.run("role", "set", role, "permissions", SILENT).code == 0


def test_a_role_with_commands_is_refused_with_the_commands_that_change_it(mac: Mac, server: Loopback) -> None:
    for asked in (("job", "step", "j1"), ("job", "run", "j1"), ("run",)):
        refused = mac.run(*asked)
        assert refused.code == 8
        told = refused.out + refused.err
        assert "run only on Linux: the role `Worker` may run commands" in told
        assert "logist role set Supervisor permissions '[read_files]'" in told
    allow_no_commands(mac, "Worker")
    refused = mac.run("job", "step", "j1")
    assert (refused.code, len(server.requests)) == (8, 0)
    assert "Supervisor" in refused.err
    assert "Worker" not in refused.err
    allow_no_commands(mac, "Supervisor")
    assert mac.run("job", "step", "j1").code == 0
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (CHECK, "the check `tests` runs a command"),
        (SETUP, "`workspace.setup` runs commands"),
        (PROGRAM, "the role `Worker` works with the agent program `claude`"),
    ],
    ids=["check", "setup", "program"],
)
def test_a_config_with_commands_is_refused(mac: Mac, server: Loopback, settings: str, told: str) -> None:
    allow_no_commands(mac, "Worker", "Supervisor")
    mac.use_model(server.url, settings)
    assert mac.run("trust", "--yes").code == 0
    refused = mac.run("job", "step", "j1")
    assert (refused.code, len(server.requests)) == (8, 0), refused
    assert told in refused.err
    doctor = mac.run("doctor")
    assert told in doctor.out + doctor.err, doctor
    assert len(mac.history()) == 1


def test_a_check_of_a_job_without_a_paid_model_is_refused_too(mac: Mac) -> None:
    mac.script(answer(), answer())
    assert mac.run("init").code == 0
    mac.settings(CHECK)
    assert mac.run("trust", "--yes").code == 0
    assert mac.run("job", "create", "--id", "j1", "--no-repo", "--prompt", "Do it.").code == 0
    assert mac.run("job", "step", "j1").code == 8
    assert mac.run("job", "poststep", "j1", "--response-string", command()).code == 8
    assert len(mac.history()) == 1
    changed = mac.run("config", "set", "review.checks.tests.enabled", "false")
    assert changed.code == 0, changed
    assert mac.run("job", "step", "j1").code == 0


def test_init_says_what_to_change_before_the_first_job(mac: Mac) -> None:
    created = mac.run("init")
    assert created.code == 0
    assert "run only on Linux: the role `Worker` may run commands" in created.err
    for line in created.err.split("or run: ")[1].split(" && "):
        name, fields = line.strip().split(" permissions ")
        assert mac.run(*name.split()[1:], "permissions", fields.strip("'")).code == 0
    assert mac.run("init").err == ""


def test_doctor_and_the_bug_report(mac: Mac, server: Loopback) -> None:
    doctor = mac.run("doctor")
    assert doctor.code == 5, doctor
    assert "the role `Worker` may run commands" in doctor.out + doctor.err
    allow_no_commands(mac, "Worker", "Supervisor")
    doctor = mac.run("doctor")
    assert doctor.code == 0, doctor
    assert "sandbox" in doctor.out + doctor.err
    report = mac.run("doctor", "--report")
    assert report.code == 0, report
    assert "Darwin" in (mac.project / "logist-report.txt").read_text("utf-8")


@pytest.mark.parametrize("mount", ["smbfs //ada@server/share", "macfuse sshfs@macfuse0"])
def test_jobs_on_a_network_file_system_are_refused(mac: Mac, mount: str) -> None:
    mac.script(answer())
    assert mac.run("init").code == 0
    assert mac.run("job", "create", "--id", "j1", "--no-repo", "--prompt", "Do it.").code == 0
    (mac.place / "mount").write_text(mount, "utf-8")
    refused = mac.run("job", "step", "j1")
    assert refused.code == 8
    assert f"a network file system ({mount.split()[0]})" in refused.err
    assert "move the project to a local disk" in refused.err
    assert mac.run("job", "status", "j1").code == 0
    assert len(mac.history()) == 1
