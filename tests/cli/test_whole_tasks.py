"""Whole tasks as a person does them: from `job create` to a repository whose tests pass."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import shop, support
from tests.cli.desk import Desk, Json, answer, command
from tests.support import RunLogist, git

TITLE = "The discount begins too early"
CONFIG = {
    "review": {
        "checks": {
            "build_passes": {"command": [shop.SUITE[0], "-B", "-c", "import shop.cart"]},
            "test_coverage": {"severity": "error", "command": list(shop.SUITE)},
        }
    },
    "context": {"custom_instructions": "Prices are whole cents."},
}
ISSUE = {"check": "code_quality", "severity": "error", "file": shop.CART, "line": 7, "message": "No test."}
PASS = answer(command(summary="Good.", output={"verdict": "PASS", "issues": [], "suggestions": []}))
FAIL = answer(command(summary="Not yet.", output={"verdict": "FAIL", "issues": [ISSUE]}))
BREAKS = answer(files={shop.CART: shop.cart("amuont > 100")}, role="fix")
MENDS = answer(files={shop.CART: shop.MENDED, shop.EDGE: shop.EDGE_TEST}, role="fix")


class Till(Desk):
    """A desk in the repository of the program."""

    def __init__(self, place: Path, run: RunLogist) -> None:
        shop.make(place)
        (place / ".git" / "info" / "exclude").write_text(".logist/\nanswers.json\n*.flow.yaml\n", "utf-8")
        super().__init__(place, run)

    def configure(self, settings: Json) -> None:
        """A config that its owner has looked at."""
        self.settings(json.dumps(settings))
        assert self("trust", "--yes").code == 0

    def replays(self, *job_ids: str) -> None:
        for job_id in job_ids:
            for look in ("replay", "verify"):
                ran = self("job", look, job_id)
                assert (ran.code, ran.err) == (0, ""), ran


@pytest.fixture
def till(tmp_path: Path, cli: RunLogist) -> Till:
    return Till(tmp_path / "till", cli)


def test_a_bug_from_its_task_to_the_source(till: Till) -> None:
    till.configure(CONFIG)
    before = support.tree(till.place / "shop")
    till.script(BREAKS, FAIL, MENDS, PASS)
    till.create("bug", "--task-type", "bug", "--title", TITLE, prompt="100 has no discount yet: shop/cart.py")
    assert "role fix, because task_type is bug" in till("job", "preview", "bug").err

    worked = till("job", "step", "bug")
    assert (worked.code, "test_coverage (error): the check failed (exit status 1)" in worked.out) == (0, True)
    reviewed = till("job", "step", "bug")
    assert "Supervisor: FAIL, REVIEW_REQUIRED -> PENDING" in reviewed.out
    assert "reason: Not yet. (blocked by test_coverage, code_quality)" in reviewed.out
    assert till("job", "merge", "bug").code == 8

    finished = till("job", "run", "bug")
    assert (finished.code, till.state("bug")["awaiting"]) == (11, "end")
    prompts = [entry["request"]["prompt"] for entry in till.history("bug")]
    assert "the check failed" in prompts[2]
    rework = prompts[3]
    for told in ("(code_quality, shop/cart.py:7): No test.", "name 'amuont' is not defined", "whole cents"):
        assert told in rework
    assert "This is attempt 2 of 3." in rework

    assert till("job", "approve", "bug").code == 0
    assert support.tree(till.place / "shop") == before
    mine = till.place / shop.CART
    mine.write_text("# mine\n", "utf-8")
    refused = till("job", "merge", "bug")
    assert (refused.code, shop.CART in refused.err) == (8, True)
    assert mine.read_text("utf-8") == "# mine\n"
    git(till.place, "checkout", "--", shop.CART)

    assert till("job", "merge", "bug").code == 0
    assert shop.subjects(till.place) == [TITLE, "shop"]
    assert git(till.place, "status", "--porcelain") == ""
    assert shop.works(till.place)
    assert "already contains the work" in till("job", "merge", "bug").out
    till.replays("bug")


FLOW = """\
name: {name}
steps:
  - {{id: {name}, prompt: Do it., role: Worker, review: true}}
"""


@pytest.mark.deep
def test_three_jobs_at_once_of_which_two_fit_together(till: Till) -> None:
    till.configure(CONFIG)
    shipping = {
        "shop/shipping.py": "COST = 5\n",
        "tests/test_shipping.py": (
            "import unittest\nfrom shop.shipping import COST\n\n\nclass ShippingTest(unittest.TestCase):\n"
            "    def test_cost(self):\n        self.assertEqual(COST, 5)\n"
        ),
    }
    works = {
        "mends": [{**MENDS, "role": "Worker"}, PASS],
        "ships": [answer(files={"shop/shipping.py": "COST = 4\n"}), FAIL, answer(files=shipping), PASS],
        "clashes": [answer(files={shop.CART: shop.cart("amount > 99", "MINIMUM = 1")}), PASS],
    }
    (till.place / "answers.json").write_text(json.dumps({"steps": works}), "utf-8")
    for name in works:
        flow = till.place / f"{name}.flow.yaml"
        flow.write_text(FLOW.format(name=name), "utf-8")
        assert till("job", "create", "--id", name, "--title", name, "--workflow", str(flow)).code == 0
    ran = till("run", "--parallel", "3")
    assert (ran.code, ran.out.splitlines()[-1]) == (11, "jobs: 3 (3 APPROVAL_REQUIRED)")
    assert shop.subjects(till.place) == ["shop"]

    for name in works:
        assert till("job", "approve", name).code == 0
    assert "fast-forward" in till("job", "merge", "mends").out
    assert "with a merge commit" in till("job", "merge", "ships").out
    at = git(till.place, "rev-parse", "HEAD")
    refused = till("job", "merge", "clashes")
    assert (refused.code, f"merge conflict with main in: {shop.CART}" in refused.err) == (8, True)
    assert git(till.place, "rev-parse", "HEAD") == at
    assert git(till.place, "status", "--porcelain") == ""
    assert shop.works(till.place)

    assert till("job", "merge", "clashes", "--branch").code == 0
    with pytest.raises(subprocess.CalledProcessError):
        git(till.place, "merge", "--quiet", "logist/clashes")
    (till.place / shop.CART).write_text(shop.cart("amount > 100", "MINIMUM = 1"), "utf-8")
    shop.commit(till.place, "both")
    seen = till("job", "merge", "clashes")
    assert (seen.code, "already contains the work" in seen.out) == (0, True)
    assert till.state("clashes")["merge"] == "merged"
    assert shop.works(till.place)
    till.replays(*works)


def test_a_run_says_why_a_job_is_not_merged(till: Till) -> None:
    till.configure({"review": {"mode": "yolo"}})
    till.script({**MENDS, "role": "Worker"}, PASS)
    till.create("j")
    (till.place / shop.CART).write_text("# mine\n", "utf-8")
    for more in ((), ("--json",)):
        ran = till("run", *more)
        told = ran.json["diagnostics"][0]["message"] if more else ran.err
        assert (ran.code, "not merged yet: " in told, shop.CART in told) == (8, True, True)
    assert till("job", "status", "j").out.startswith("j is SUCCESS (not merged)\n")
    git(till.place, "checkout", "--", shop.CART)
    assert till("run").out.splitlines()[-1] == "jobs: 1 (1 SUCCESS)"
    assert shop.works(till.place)


COVEN = {
    "orchestration": {"max_concurrent_agents": 3, "agent_timeout_minutes": 30, "poll_interval_seconds": 5},
    "review": {
        "mode": "strict",
        "checks": {"code_quality": {"enabled": True, "severity": "warning"}},
        "auto_merge": False,
    },
    "context": {
        "custom_instructions": "Write a test for each price.",
        "excluded_paths": ["node_modules", "dist", ".git", "shop"],
        "relevant_files_limit": 10,
    },
    "roles": {"default": "implement", "type_mapping": {"feature": "implement", "bug": "fix"}},
}
ROLE = """\
name: implement
description: "What this project builds"
applicable_task_types: [feature, task]

prompt_template: |
  You build a part of the till.

  ## What
  {{.Title}}

  {{if .AcceptanceCriteria}}
  {{range .AcceptanceCriteria}}
  - {{.}}
  {{end}}
  {{end}}

  ## Around it
  {{.RepoContext}}

context_requirements:
  - repo_structure
  - relevant_files
"""


def test_a_coven_project_as_it_is(tmp_path: Path, cli: RunLogist) -> None:
    place = shop.make(tmp_path / "till")
    (place / ".coven" / "roles").mkdir(parents=True)
    (place / ".coven" / "config.json").write_text(json.dumps(COVEN), "utf-8")
    (place / ".coven" / "roles" / "implement.yaml").write_text(ROLE, "utf-8")
    shop.commit(place, "coven")
    work = {shop.CART: shop.MENDED, shop.EDGE: shop.EDGE_TEST}
    warned = {"check": "code_quality", "severity": "warning", "message": "It has no test."}
    script = tmp_path / "answers.json"
    script.write_text(
        json.dumps(
            {
                "answers": [
                    answer(files={shop.CART: shop.MENDED}, role="implement"),
                    answer(command(output={"verdict": "PASS", "issues": [warned]})),
                    answer(files=work, role="implement"),
                    PASS,
                ]
            }
        ),
        "utf-8",
    )

    def logist(*args: str) -> support.Ran:
        return cli(*args, env={"LOGIST_AGENT": f"scripted:{script}", "LOGIST_STEWARD": "ada"}, cwd=place)

    task = place / "task.yaml"
    task.write_text(
        "id: j\ntitle: Begin later\nprompt: x\ntask_type: feature\nacceptance_criteria: [At 100.]\n"
    )
    assert logist("job", "create", str(task)).code == 0
    task.unlink()
    ran = logist("job", "run", "j")
    assert (ran.code, "blocked by code_quality" in ran.out) == (11, True)
    history = json.loads((place / ".logist" / "jobs" / "j" / "jobHistory.json").read_bytes())["interactions"]
    prompt = history[3]["request"]["prompt"]
    for told in (
        "You build a part of the till.\n\n## What\nBegin later\n",
        "- At 100.",
        "test_cart.py",
        "Write a test for each price.",
        "warning (code_quality): It has no test.",
    ):
        assert told in prompt, told
    assert "cart.py\n" not in prompt.replace("test_cart.py\n", "")
    assert logist("job", "approve", "j").code == 0
    assert logist("job", "merge", "j").code == 0
    assert shop.subjects(place) == ["Begin later", "coven", "shop"]
    assert shop.works(place)
    assert logist("job", "replay", "j").code == 0
