"""Setups with real package managers: what they install is built here, so that no network is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from logist.config.environment import Environment
from logist.core.model import CheckResult, Status
from tests.jobs.bench import Bench, Json, answer, command
from tests.jobs.conftest import MakeBench

pytestmark = pytest.mark.deep

BASE = Path(os.path.realpath(sys.executable))
PASSES = answer(command(output={"verdict": "PASS", "issues": [], "suggestions": []}))


def wheel(folder: Path, name: str, version: str, text: str) -> None:
    """A package of one module, and a program that prints what the module says."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"{text}\ndef main():\n    print(WORD)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-says = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            file.writestr(path, content)


def committed(repo: Path) -> Path:
    done = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm first"
    subprocess.run(done, shell=True, cwd=repo, check=True)
    return repo


def started(
    bench: MakeBench, path: str, setup: list[str | list[str]], check: str, answers: list[Json]
) -> Bench:
    settings = {
        "workspace": {"setup": {"commands": setup}},
        "review": {"checks": {"ours": {"severity": "error", "command": check}}},
    }
    b = bench(answers, settings)
    b.change(environment=Environment({"HOME": str(b.project.home), "PATH": path}))
    return b


def result(b: Bench, job_id: str) -> Json:
    (found,) = b.state(job_id).checks or [CheckResult()]
    return found.model_dump(mode="json")


def test_a_python_project(bench: MakeBench, tmp_path: Path) -> None:
    """With an environment of its own, a dependency, and the project itself on its path."""
    repo = tmp_path / "repo"
    wheel(repo / "wheels", "words", "1.0", "WORD = 'one'")
    wheel(repo / "wheels", "words", "2.0", "WORD = 'two'")
    (repo / "src" / "shop").mkdir(parents=True)
    (repo / "src" / "shop" / "__init__.py").write_text("import words\nPRICE = 1\n", "utf-8")
    (repo / "requirements.txt").write_text("words==1.0\n", "utf-8")
    (repo / "check.py").write_text(
        "import shop, sys, words\nprint(shop.PRICE, words.WORD, sys.prefix != sys.base_prefix)\n"
        "sys.exit(shop.PRICE != 2)\n",
        "utf-8",
    )
    committed(repo)
    wrong, right = ({"src/shop/__init__.py": f"import words\nPRICE = {price}\n"} for price in (999, 2))
    more = {**right, "requirements.txt": "words==2.0\n"}
    b = started(
        bench,
        f"{BASE.parent}:/usr/bin:/bin",
        [
            [BASE.name, "-m", "venv", ".venv"],
            "pip install --no-index --find-links wheels -r requirements.txt",
        ],
        "python check.py && words-says && pip --version >/dev/null",
        [answer(files=wrong), PASSES, answer(files=right), PASSES],
    )
    b.create("first", repo=str(repo))
    b.step("first")
    assert (result(b, "first")["outcome"], result(b, "first")["output"]) == ("failed", "999 one True")
    b.step("first")
    b.step("first")
    assert (result(b, "first")["outcome"], result(b, "first")["output"]) == ("passed", "2 one True\none")
    b.step("first")
    assert b.state("first").status is Status.APPROVAL_REQUIRED
    b.script({}, [answer(files=right)])
    b.create("second", repo=str(repo))
    b.step("second")
    assert (result(b, "second")["outcome"], result(b, "second")["output"]) == ("passed", "2 one True\none")
    script = (b.workspace("second") / ".venv" / "bin" / "words-says").read_text("utf-8")
    assert str(b.workspace("second")) in script
    assert str(b.workspace("first")) not in script
    assert sum(line.startswith("setting up the workspace") for line in b.said) == 2
    b.script({}, [answer(files=more)])
    b.create("third", repo=str(repo))
    b.step("third")
    assert (result(b, "third")["outcome"], result(b, "third")["output"]) == ("passed", "2 two True\ntwo")


@pytest.mark.skipif(
    shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin") is None, reason="npm is not installed"
)
def test_a_node_project(bench: MakeBench, tmp_path: Path) -> None:
    """With a lock file, a dependency that has a program, and a package of the project itself."""
    path = "/usr/local/bin:/usr/bin:/bin"
    repo = tmp_path / "repo"
    dependency = tmp_path / "words"
    dependency.mkdir()
    described = {"name": "words", "version": "1.0.0", "main": "index.js", "bin": {"words-says": "cli.js"}}
    (dependency / "package.json").write_text(json.dumps(described), "utf-8")
    (dependency / "index.js").write_text("module.exports = 'one';\n", "utf-8")
    (dependency / "cli.js").write_text("#!/usr/bin/env node\nconsole.log(require('./index.js'));\n", "utf-8")
    (repo / "packages" / "core").mkdir(parents=True)
    npm = {"PATH": path, "HOME": str(tmp_path), "npm_config_update_notifier": "false"}
    subprocess.run(
        ["npm", "pack", "--pack-destination", repo], cwd=dependency, env=npm, check=True, capture_output=True
    )
    root = {
        "name": "shop",
        "private": True,
        "workspaces": ["packages/*"],
        "scripts": {"test": "node test.js"},
        "dependencies": {"words": "file:words-1.0.0.tgz"},
    }
    core = {"name": "@shop/core", "version": "1.0.0", "main": "index.js"}
    (repo / "package.json").write_text(json.dumps(root), "utf-8")
    (repo / "packages" / "core" / "package.json").write_text(json.dumps(core), "utf-8")
    (repo / "packages" / "core" / "index.js").write_text("exports.price = 1;\n", "utf-8")
    (repo / "test.js").write_text(
        "const {price} = require('@shop/core');\nconsole.log(price, require('words'));\n"
        "process.exit(price === 2 ? 0 : 1);\n",
        "utf-8",
    )
    subprocess.run(
        ["npm", "install", "--package-lock-only", "--offline"],
        cwd=repo,
        env=npm,
        check=True,
        capture_output=True,
    )
    committed(repo)
    wrong, right = ({"packages/core/index.js": f"exports.price = {price};\n"} for price in (999, 2))
    b = started(
        bench,
        path,
        [["npm", "ci", "--offline"]],
        "npm test --silent && words-says",
        [answer(files=wrong), PASSES, answer(files=right)],
    )
    b.create("first", repo=str(repo))
    b.step("first")
    assert (result(b, "first")["outcome"], result(b, "first")["output"]) == ("failed", "999 one")
    b.step("first")
    b.step("first")
    assert (result(b, "first")["outcome"], result(b, "first")["output"]) == ("passed", "2 one\none")
    b.script({}, [answer(files=right)])
    b.create("second", repo=str(repo))
    b.step("second")
    assert (result(b, "second")["outcome"], result(b, "second")["output"]) == ("passed", "2 one\none")
    assert sum(line.startswith("setting up the workspace") for line in b.said) == 1
    assert os.readlink(b.workspace("second") / "node_modules" / "@shop" / "core") == "../../packages/core"
