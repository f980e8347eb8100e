"""What a program finds in its environment: all of it is said, so that files of the workspace add nothing."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from logist.agents.programs.aider import Aider
from logist.agents.programs.mini import ITS_OWN
from logist.agents.programs.protocol import Run
from logist.agents.protocol import AgentWork, CodePaths
from logist.agents.sandbox import GateAccess
from logist.agents.workplace import Workplace
from logist.core.model import Model
from logist.store import JobDir

OWN = {"PATH": "/bin", "HTTPS_PROXY": "http://proxy:1", "no_proxy": "localhost", "SSL_CERT_FILE": "/ca"}


def variables(work: AgentWork, own: dict[str, str]) -> dict[str, str]:
    place = Workplace(Path("/job/workspace"), Path("/job/inflight/run"), own)
    return dict(place.confine_command(work).environment)


@pytest.mark.parametrize(
    "name", ["HTTP_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY"]
)
def test_a_proxy_that_nobody_named_is_told_as_none(name: str) -> None:
    """Some programs read a `.env` of the workspace for what they were not told, and go through what it names."""
    assert variables(AgentWork(network=True), OWN)[name] == ""


def test_those_of_the_user_are_kept_for_who_may_use_the_network() -> None:
    told = variables(AgentWork(network=True), OWN)
    assert (told["HTTPS_PROXY"], told["no_proxy"]) == ("http://proxy:1", "localhost")
    assert told["SSL_CERT_FILE"] == "/ca"
    kept = variables(replace(AgentWork(), network=False), OWN)
    assert not {name for name in kept if "proxy" in name.lower()}


def test_a_program_reaches_its_gate_without_a_proxy() -> None:
    place = Workplace(Path("/job/workspace"), Path("/job/inflight/run"), OWN)
    gate = GateAccess(4000, lambda listener: None)
    closed = place.confine_agent(AgentWork(network=False), {}, gate)
    assert (closed.gate, closed.network) == (gate, False)
    assert closed.environment["HTTPS_PROXY"] == ""  # a `.env` of the workspace would name one
    assert closed.environment["no_proxy"] == "127.0.0.1"
    opened = place.confine_agent(AgentWork(network=True), {"MORE": "1"}, gate)
    assert (opened.environment["HTTPS_PROXY"], opened.environment["MORE"]) == ("http://proxy:1", "1")
    assert opened.environment["no_proxy"] == "localhost,127.0.0.1"
    assert opened.environment["NO_PROXY"] == "127.0.0.1"
    assert place.confine_agent(AgentWork(), {}).gate is None


def test_what_a_setup_made_comes_first_for_commands_and_for_agent_programs(tmp_path: Path) -> None:
    """A program that holds a key keeps its own Python path: it would load modules of the workspace."""
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    code = CodePaths(programs=(".venv/bin",), virtual_env=".venv", python_path=("packages/a/src",))
    place = Workplace(workspace, tmp_path / "run", OWN)
    work = AgentWork(code=CodePaths.from_json(json.loads(json.dumps(code.to_json()))))
    for found in (place.confine_command(work), place.confine_agent(work, {"MORE": "1"})):
        assert found.environment["PATH"] == f"{workspace}/.venv/bin:/bin"
        assert found.environment["VIRTUAL_ENV"] == f"{workspace}/.venv"
    path = f"{workspace}/src:{workspace}:{workspace}/packages/a/src"
    assert place.confine_command(work).environment["PYTHONPATH"] == path
    assert "PYTHONPATH" not in place.confine_agent(work, {}).environment


def test_the_sandbox_says_where_temporary_files_go() -> None:
    """Only under bubblewrap is /tmp its own; Landlock refuses it."""
    assert "TMPDIR" not in variables(AgentWork(), OWN)


def test_its_settings_are_looked_for_where_no_agent_can_write(tmp_path: Path) -> None:
    workspace = tmp_path / "job" / "workspace"
    assert not (workspace / ITS_OWN).resolve().is_relative_to(workspace)


def test_aider_is_told_last_where_the_model_is_for_it_believes_a_file_of_the_workspace(
    tmp_path: Path,
) -> None:
    """Its `.env` overrides the environment, and its settings of models the address; its argv overrides both."""
    model = Model(name="m", provider_model="openai/m", endpoint="http://127.0.0.1:9/v1")
    run = Run(
        prompt="p",
        workspace=tmp_path / "workspace",
        home=tmp_path / "home",
        model=model,
        api_key="dummy-key-for-tests-0001",
        profile="full",
        deadline_seconds=9,
        name="j",
        role="Worker",
        proxies={"HTTPS_PROXY": "http://proxy:1"},
    )
    made = Aider().invocation(run)
    told = [after for option, after in pairwise(made.argv) if option == "--set-env"]
    assert {"OPENAI_BASE_URL=http://127.0.0.1:9/v1", "HTTPS_PROXY=http://proxy:1", "all_proxy="} <= {*told}
    settings = json.loads(made.files["aider.model-settings-file"])
    assert {each["name"] for each in settings} == {"openai/m", "aider/extra_params"}
    assert [each["extra_params"] for each in settings] == [{"api_base": "http://127.0.0.1:9/v1"}] * 2
    assert {"--no-auto-lint", "--no-auto-test", "--load"} <= {*made.argv}


def test_only_the_owner_may_enter_what_is_private(tmp_path: Path) -> None:
    """`logist doctor` warns about anything else in a job."""
    before = os.umask(0o022)
    try:
        place = Workplace.for_job(JobDir(tmp_path / "job", "job"), {})
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (place.scratch, place.home)] == [0o700, 0o700]
