"""What a foreach costs: the jobs of all items made, run by scripted agents several at a time, and gathered.

Run: python benchmarks/fanout.py [--items 100] [--input-kb 0 250] [--files 100] [--parallel 4]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import LOGIST, clean_environment, table

SPAWN_LIMIT = 0.15
"""Seconds for each job that is made, without an input to share; with one of 250 KB twice that."""
WORKFLOW = {
    "name": "Fan",
    "steps": [
        {"id": "plan", "prompt": "Find the parts."},
        {"id": "each", "stepType": "foreach", "itemsPath": "output.parts", "prompt": "Do {{item}}."},
        {"id": "gather", "stepType": "join", "prompt": "Take it together."},
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--input-kb", type=int, nargs="+", default=[0, 250])
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--parallel", type=int, default=4)
    options = parser.parse_args()
    rows: list[list[object]] = [
        [
            "input KB",
            "jobs",
            "making s",
            "s a job",
            "running and gathering s",
            "s a job",
            f"at most {SPAWN_LIMIT:g}",
        ]
    ]
    for size in options.input_kb:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            repository(place, options.files)
            follow(place, options.items, size)
            logist(place, "job", "step", "fan")
            made = logist(place, "job", "step", "fan")
            ran = logist(place, "run", "--parallel", str(options.parallel))
            require_all(place, options.items)
            each = made / options.items
            judged = "yes" if each <= SPAWN_LIMIT * (2 if size else 1) else "NO"
            rows.append([str(size), str(options.items), made, each, ran, ran / options.items, judged])
    table(rows)


def repository(place: Path, files: int) -> None:
    """A git repository with so many files of a kilobyte."""
    for number in range(files):
        path = place / f"d{number % 10}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n" * 200)
    (place / ".gitignore").write_text(".logist/\n*.json\n")
    who = ("-c", "user.name=b", "-c", "user.email=b@localhost")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "begun")):
        subprocess.run(["git", *words], cwd=place, check=True, env=clean_environment(place))


def follow(place: Path, items: int, size: int) -> None:
    """A job that gives away a step with so many items, and the answers of all its agents."""
    steps: dict[str, Any] = {"plan": [gave({"parts": list(range(1, items + 1))})], "gather": [gave("all")]}
    for number in range(1, items + 1):
        steps[f"each[{number}]"] = [gave(number, **{f"part-{number}.txt": f"{number}\n"})]
    row = {"name": "a name", "text": "some words here and there " * 4, "tags": [1, 2, "x"]}
    data = {"table": [row] * (size * 1000 // len(json.dumps(row)))}
    for name, content in (("w.json", WORKFLOW), ("answers.json", {"steps": steps}), ("input.json", data)):
        (place / name).write_text(json.dumps(content))
    logist(place, "init")
    few = ("--no-review", "--approval", "none", "--max-allowed-iterations", str(10 * items))
    logist(place, "job", "create", "--id", "fan", "--workflow", "w.json", "--input", "@input.json", *few)


def gave(output: object, **files: str) -> dict[str, Any]:
    """An answer that completes a step."""
    told = {"action": "COMPLETED", "evidence_files": list(files), "summary_for_supervisor": "Done."}
    return {"text": json.dumps({**told, "output": output}), "files": files}


def logist(place: Path, *words: str) -> float:
    """Seconds of a command that ends well."""
    asks = words[0] == "run" or words[:2] == ("job", "step")
    agent = ("--agent", f"scripted:{place / 'answers.json'}") if asks else ()
    began = time.perf_counter()
    ran = subprocess.run(
        [*LOGIST, *words, *agent],
        cwd=place,
        env=clean_environment(place),
        capture_output=True,
        check=False,
        text=True,
    )
    if ran.returncode != 0:
        raise SystemExit(f"{words} ended with {ran.returncode}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return time.perf_counter() - began


def require_all(place: Path, items: int) -> None:
    """Every job ended well, and all work is there, in the order of the items."""
    jobs = place / ".logist" / "jobs"
    states = {path.parent.name: json.loads(path.read_bytes()) for path in jobs.glob("*/state.json")}
    assert len(states) == items + 1
    assert {state["status"] for state in states.values()} == {"SUCCESS"}
    assert states["fan"]["results"] == list(range(1, items + 1))
    for number in range(1, items + 1):
        path = jobs / "fan" / "workspace" / f"part-{number}.txt"
        assert path.read_text() == f"{number}\n"


if __name__ == "__main__":
    main()
