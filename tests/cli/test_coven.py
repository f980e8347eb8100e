"""A Coven project works as it is: only `.coven` with its config.json and a role in it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.desk import answer
from tests.support import Ran, RunLogist, tree

CONFIG = """\
{
  "orchestration": {
    "max_concurrent_agents": 2,
    "agent_timeout_minutes": 30,
    "poll_interval_seconds": 5
  },
  "review": {
    "mode": "normal",
    "checks": {
      "build_passes": { "enabled": true, "severity": "error" }
    },
    "auto_merge": false
  },
  "context": {
    "custom_instructions": "As the team does...",
    "excluded_paths": ["node_modules", "dist", ".git"],
    "relevant_files_limit": 10
  },
  "roles": {
    "default": "implement",
    "type_mapping": { "feature": "implement", "bug": "fix" }
  }
}
"""
ROLE = """\
name: implement
description: "Implement something new"
applicable_task_types: [feature, task]

prompt_template: |
  You implement a feature.

  ## Task
  {{.Title}}

  {{if .AcceptanceCriteria}}
  {{range .AcceptanceCriteria}}
  - {{.}}
  {{end}}
  {{end}}

context_requirements:
  - repo_structure
"""


class Coven:
    """A repository with a `.coven` that was committed, and a person deep in it."""

    def __init__(self, root: Path, run: RunLogist) -> None:
        self.root, self.cwd, self._run = root, root / "src" / "deep", run
        self.cwd.mkdir(parents=True)
        (root / ".coven" / "roles").mkdir(parents=True)
        (root / ".coven" / "config.json").write_text(CONFIG, "utf-8")
        (root / ".coven" / "roles" / "implement.yaml").write_text(ROLE, "utf-8")
        (root / "src" / "deep" / "a.txt").write_text("a\n", "utf-8")
        (root / "answers.json").write_text(json.dumps({"answers": [answer(), answer()]}), "utf-8")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")

    def git(self, *args: str) -> str:
        return subprocess.run(
            ["git", *args], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def __call__(self, *args: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Ran:
        agent = {"LOGIST_AGENT": f"scripted:{self.root / 'answers.json'}", "LOGIST_STEWARD": "ada"}
        return self._run(*args, env=agent | (env or {}), cwd=cwd or self.cwd)

    @property
    def jobs(self) -> Path:
        return self.root / ".logist" / "jobs"


@pytest.fixture
def coven(tmp_path: Path, cli: RunLogist) -> Coven:
    return Coven(tmp_path / "p", cli)


def test_looking_makes_nothing(coven: Coven) -> None:
    before = tree(coven.root)
    rows = {row["field"]: row for row in coven("config", "show", "--json").json["data"]}
    file = str(coven.root / ".coven" / "config.json")
    assert (rows["max_concurrent_agents"]["value"], rows["max_concurrent_agents"]["source"]) == (2, file)
    assert (rows["roles.default"]["value"], rows["roles.default"]["source"]) == ("implement", file)
    assert rows["review.checks.security.severity"]["source"] == "default"
    roles = {line.split("\t")[0]: line for line in coven("role", "list").out.splitlines()}
    assert str(coven.root / ".coven" / "roles" / "implement.yaml") in roles["implement"]
    assert {"Worker", "Supervisor"} <= set(roles)
    for args in (["job", "list"], ["doctor"], ["role", "validate"], ["role", "show", "implement"]):
        ran = coven(*args)
        assert (ran.code, "warning" in ran.out) == (0, False), ran
    assert tree(coven.root) == before


def test_its_jobs_lie_in_logist_and_are_nobodys_source(coven: Coven) -> None:
    made = coven("job", "create", "--id", "j", "--prompt", "Do it.")
    assert (made.code, made.err) == (0, "")
    assert (coven.root / ".logist" / ".gitignore").read_text("utf-8") == "jobs/\ncurrent_job\n"
    assert (coven.jobs / "j" / "workspace" / "src" / "deep" / "a.txt").read_text("utf-8") == "a\n"
    assert coven.git("status", "--short", "-uall").splitlines() == ["?? .logist/.gitignore"]
    assert not (coven.root / ".coven" / "jobs").exists()
    assert coven("job", "list").out.split("\t")[:3] == ["j", "PENDING", "implement"]
    stepped = coven("job", "step", "j")
    assert (stepped.code, stepped.err) == (0, "")
    history = json.loads((coven.jobs / "j" / "jobHistory.json").read_bytes())
    assert "You implement a feature." in history["interactions"][1]["request"]["prompt"]
    assert coven("doctor").code == 0


def test_jobs_elsewhere_make_no_home(coven: Coven, tmp_path: Path) -> None:
    ran = coven("job", "create", "--id", "j", "--prompt", "x", "--jobs-dir", str(tmp_path / "jobs"))
    assert ran.code == 0, ran.err
    assert (tmp_path / "jobs" / "j").is_dir()
    assert not (coven.root / ".logist").exists()


def test_selecting_makes_the_home_too(coven: Coven, tmp_path: Path) -> None:
    coven("job", "create", "--id", "j", "--prompt", "x", "--jobs-dir", str(tmp_path / "jobs"))
    assert coven("job", "select", "j", "--jobs-dir", str(tmp_path / "jobs")).code == 0
    assert (coven.root / ".logist" / "current_job").read_text("utf-8") == "j\n"
    assert (coven.root / ".logist" / ".gitignore").exists()


@pytest.mark.parametrize("args", [["role", "new", "Poet"], ["workflow", "import", "w.mmd"]])
def test_a_file_that_is_written_makes_the_home_too(coven: Coven, args: list[str]) -> None:
    (coven.cwd / "w.mmd").write_text("graph TD\nA[Do it] --> B(See it)\n", "utf-8")
    assert coven(*args).code == 0
    assert (coven.root / ".logist" / ".gitignore").read_text("utf-8") == "jobs/\ncurrent_job\n"


def test_init_beside_it(coven: Coven) -> None:
    ran = coven("init", cwd=coven.root)
    assert ran.out.splitlines() == [
        f"created: {coven.root / '.logist'}",
        f"{coven.root / '.coven'} still applies; .logist overrides it",
    ]
    (coven.root / ".logist" / "config.yaml").write_text("max_concurrent_agents: 7\n", "utf-8")
    (coven.root / ".logist" / "roles" / "implement.yaml").write_text(
        "name: implement\ndescription: d\ninstructions: i\nllm_model: grok-code-fast-1\n", "utf-8"
    )
    rows = {row["field"]: row["value"] for row in coven("config", "show", "--json").json["data"]}
    assert (rows["max_concurrent_agents"], rows["context.custom_instructions"]) == (7, "As the team does...")
    assert str(coven.root / ".logist" / "roles") in coven("role", "list").out
    assert coven("job", "create", "--id", "j", "--prompt", "x").code == 0


def test_a_mistake_is_told_with_file_line_and_key(coven: Coven) -> None:
    file = coven.root / ".coven" / "config.json"
    file.write_text(CONFIG.replace('"normal"', '"lax"'), "utf-8")
    ran = coven("job", "create", "--prompt", "x")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith(f"error: {file}:8: `review.mode` must be one of")
    assert not (coven.root / ".logist").exists()
    assert coven("doctor").code == 5


def test_what_is_about_its_daemon(coven: Coven) -> None:
    file = coven.root / ".coven" / "config.json"
    file.write_text(json.dumps({"maxConcurrentAgents": 3, "logging": {"level": "info"}}, indent=1), "utf-8")
    ran = coven("doctor")
    assert ran.code == 0
    assert f"{file}:2: Logist does not use `maxConcurrentAgents`" in ran.out
    assert "set orchestration.max_concurrent_agents instead" in ran.out
    made = coven("job", "create", "--prompt", "x")
    assert (made.code, "maxConcurrentAgents" in made.err) == (0, False)


def test_what_it_lets_its_agents_do_is_no_rule_of_logist_which_a_warning_says(coven: Coven) -> None:
    file = coven.root / ".coven" / "config.json"
    allowed = {"agentPermissions": {"allowedTools": ["Read"]}}
    file.write_text(json.dumps({"logging": {}, **allowed}, indent=1), "utf-8")
    told = f"{file}:3: Logist does not use `agentPermissions`"
    made = coven("job", "create", "--id", "j", "--prompt", "x")
    assert (made.code, told in made.err, "logging" in made.err) == (0, True, False)
    for args in (["config", "show"], ["doctor"]):
        ran = coven(*args)
        assert (ran.code, told in ran.out + ran.err, "`logging`" in ran.out + ran.err) == (0, True, True)
    for args in (["job", "list"], ["job", "status", "j"], ["job", "step", "j"], ["role", "list"]):
        ran = coven(*args)
        assert (ran.code, "agentPermissions" in ran.err) == (0, False), args


def test_its_workflows(coven: Coven) -> None:
    folder = coven.root / ".coven" / "workflows"
    folder.mkdir()
    (folder / "both.mmd").write_text("graph TD\nA[Do it] --> B(See it)\n", "utf-8")
    assert "both" in coven("workflow", "list").out
    assert coven("job", "create", "--id", "j", "--prompt", "x", "--workflow", "both").code == 0


@pytest.mark.parametrize(
    "data", [{"checks": {"x": {"command": "touch pwned"}}}, {"auto_merge": True}, {"mode": "yolo"}]
)
def test_what_runs_or_merges_has_to_be_allowed(coven: Coven, tmp_path: Path, data: dict[str, object]) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    (coven.root / ".coven" / "config.json").write_text(json.dumps({"review": data}), "utf-8")
    made = coven("job", "create", "--id", "j", "--prompt", "x", env=env)
    assert (made.code, "logist trust" in made.err) == (0, True)
    ran = coven("job", "step", "j", env=env)
    assert (ran.code, "logist trust" in ran.err) == (5, True)
    assert ran.err.startswith(f"error: {coven.root / '.coven' / 'config.json'}: `review.")
    allowed = coven("trust", "--yes", env=env)
    assert (allowed.code, "review." in allowed.out) == (0, True)
    assert "logist trust" not in coven("job", "preview", "j", env=env).err
    (coven.root / ".coven" / "roles" / "implement.yaml").write_text(ROLE + "network: true\n", "utf-8")
    assert coven("job", "list", env=env).code == 0
    ran = coven("job", "step", "j", env=env)
    place = coven.root / ".coven" / "roles" / "implement.yaml"
    assert (ran.code, ran.err.startswith(f"error: {place}: `roles/implement.network` can ")) == (5, True)


@pytest.mark.parametrize(
    ("text", "options", "key"),
    [
        ("roles: {default: Nobody}", [], "`roles.default` names the unknown role `Nobody`"),
        (
            "roles: {type_mapping: {bug: Nobody}}",
            ["--task-type", "bug"],
            "`roles.type_mapping.bug` names the unknown role `Nobody`",
        ),
        ("review: {role: Nobody}", [], "`review.role` names the unknown role `Nobody`"),
    ],
)
def test_a_role_that_nobody_knows(coven: Coven, text: str, options: list[str], key: str) -> None:
    (coven.root / ".logist").mkdir()
    (coven.root / ".logist" / "config.yaml").write_text(text, "utf-8")
    ran = coven("job", "create", "--id", "j", "--prompt", "x", *options)
    assert (ran.code, key in ran.err) == (5, True)
    assert not coven.jobs.exists()
    assert f"config.yaml: {key}" in coven("doctor").out
    spoken = ["--role", "Worker", "--no-review"]
    assert coven("job", "create", "--id", "j", "--prompt", "x", *spoken).code == 0
