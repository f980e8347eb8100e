"""The files that operators copy: units of systemd, lines of cron, and the recipe of the container image."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from logist.cli.main import root
from logist.config.environment import Environment
from tests.support import ROOT, logist_command, process_environment

EXAMPLES = ROOT / "docs" / "examples"
UNITS = sorted((EXAMPLES / "systemd").iterdir())
SERVICES = [path for path in UNITS if path.suffix == ".service"]


def read_unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Read a unit strictly: sections, `Key=value` lines, comments, and nothing else."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in path.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if found := re.fullmatch(r"\[([A-Z][a-z]+)\]", line):
            assert found[1] not in sections
            section = sections.setdefault(found[1], {})
        else:
            setting = re.fullmatch(r"([A-Z][A-Za-z]+)=(.*\S|)", line)
            assert setting, line
            section.setdefault(setting[1], []).append(setting[2])
    return sections


def require_command(words: list[str]) -> None:
    """Parse a command line as Logist does, without running it."""
    words = [word.replace("%i", "shop") for word in words]
    command: click.Command = root
    context = click.Context(root, obj=Environment({}))
    while isinstance(command, click.Group) and words and (found := command.get_command(context, words[0])):
        command, words = found, words[1:]
    if words[:1] == ["gc"] and command is root:
        pytest.skip("logist gc is not here yet")
    command.make_context("logist", words, parent=context)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_as_systemd_reads_them(path: Path, tmp_path: Path) -> None:
    unit = read_unit(path)
    kind = path.suffix[1:].capitalize()
    assert set(unit) - {"Unit", "Install"} == {kind}
    assert unit["Unit"]["Description"]
    if path.suffix == ".timer":
        assert path.with_suffix(".service") in UNITS
    if shutil.which("systemd-analyze"):
        for each in UNITS:  # a timer needs its service
            text = each.read_text("utf-8").replace("/usr/local/bin/logist", sys.executable)
            (tmp_path / each.name.replace("@", "@shop")).write_text(text, "utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", str(tmp_path / path.name.replace("@", "@shop"))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_services_run_commands_that_exist(path: Path) -> None:
    [line] = read_unit(path)["Service"]["ExecStart"]
    program, *words = shlex.split(line)
    assert program == "/usr/local/bin/logist"
    require_command(words)


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_services_are_hardened_as_far_as_the_sandbox_of_agents_allows(path: Path) -> None:
    service = read_unit(path)["Service"]
    assert service["User"] == ["logist"]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["ProtectSystem"] == ["strict"]
    breaking = {
        *("RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset"),
        *("PrivateUsers", "SystemCallFilter", "MemoryDenyWriteExecute"),
    }
    assert not breaking & service.keys()
    if " run " in service["ExecStart"][0]:
        assert service["KillMode"] == ["process"], "couriers would be killed in the middle of a paid call"
        assert "143" in service["SuccessExitStatus"][0].split()
        assert "PrivateTmp" not in service
        assert "AF_NETLINK" in service["RestrictAddressFamilies"][0]  # bubblewrap sets up `lo` with it


def test_cron_lines_run_commands_that_exist() -> None:
    lines = (EXAMPLES / "logist.cron").read_text("utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#") and "=" not in line.split()[0]]
    assert len(entries) == 2
    for entry in entries:
        assert re.match(r"(?:[*0-9/]+ ){5}logist cd /srv/shop && ", entry)
        assert "%" not in entry  # cron ends the command there
        assert subprocess.run(["sh", "-n", "-c", entry.split(" ", 6)[6]], check=True).returncode == 0
        words = shlex.split(entry)
        require_command(words[len(words) - words[::-1].index("logist") :])


def test_the_service_ends_by_sigterm_within_its_time(tmp_path: Path) -> None:
    """Only that it ends by itself; `tests/cli/test_run.py` has what it leaves."""
    (tmp_path / ".logist" / "jobs").mkdir(parents=True)
    [line] = read_unit(EXAMPLES / "systemd" / "logist@.service")["Service"]["ExecStart"]
    heartbeat = tmp_path / "shop.prom"
    words = [word.replace("/var/lib/logist/%i.prom", str(heartbeat)) for word in shlex.split(line)[1:]]
    running = subprocess.Popen([*logist_command(), *words], cwd=tmp_path, env=process_environment())
    while not heartbeat.exists():
        assert running.poll() is None
    running.terminate()
    assert running.wait() == 143


def test_the_image_has_a_user_other_than_root_and_copies_only_what_it_needs() -> None:
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Containerfile").read_text("utf-8"))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {
        "ARG",
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    assert {word for word, _ in lines} <= known
    assert lines[0] == ["ARG", "BASE=docker.io/library/python:3.11-slim"]
    assert [rest.split()[0] for word, rest in lines if word == "FROM"] == ["${BASE}", "${BASE}"]
    last = max(at for at, line in enumerate(lines) if line[0] == "FROM")
    users = [rest for word, rest in lines[last:] if word == "USER"]
    assert users == ["10001"]
    assert not [line for line in lines[lines.index(["USER", "10001"]) :] if line[0] in ("RUN", "COPY")]
    copied = [word for kind, rest in lines[:last] if kind == "COPY" for word in rest.split()[:-1]]
    assert all((ROOT / each).exists() for each in copied)
    ignored = (ROOT / ".containerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == {each.rstrip("/") for each in copied}
    for word, rest in lines:
        if word == "RUN":
            assert subprocess.run(["sh", "-n", "-c", rest], check=True).returncode == 0
    shipped = {
        path.relative_to(ROOT).parts[0] for path in (ROOT / "logist" / "resources.py", ROOT / "schemas")
    }
    assert shipped <= {each.split("/")[0] for each in copied}
