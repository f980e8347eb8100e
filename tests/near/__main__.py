"""The command behind `scripts/test --near`."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.near.choosing import Choice, choose
from tests.near.record import Record
from tests.near.recording import Recording, recording, stale_imports, watch_imports
from tests.near.tree import Tree, changed_files

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".near"
ALL = ["-n", "3", "--dist", "worksteal"]
SPREAD = ["-n", "3", "--dist", "load", "--maxschedchunk", "4"]
"""Small portions, so that the nearest tests come first with several workers too."""
ALONE = ["-n", "0"]
_WITHIN = 10.0
"""Seconds of work that a run takes on, beyond the test files that mirror what changed; `--all` takes on everything."""
_QUICK = 10.0
"""Seconds below which other workers would take longer to start than they save."""
_NO_TESTS = 5
"""pytest's exit code when nothing ran."""


def main(arguments: list[str]) -> int:
    """Chooses and runs tests; the exit code is pytest's."""
    parser = argparse.ArgumentParser(prog="scripts/test --near", allow_abbrev=False)
    parser.add_argument(
        "--since", metavar="REV", default="HEAD", help="what differs from this commit; default HEAD"
    )
    parser.add_argument("--record", action="store_true", help="run every test and note what it reaches")
    parser.add_argument(
        "--all", action="store_true", help="every test that reaches it, however long that takes"
    )
    parser.add_argument("rest", nargs="*", metavar="ARGUMENT", help="for pytest; after --")
    options = parser.parse_args(arguments)
    tree = Tree.read(ROOT, CACHE / "files")
    if options.record:
        return _run(tree, Record(), [*ALL, *options.rest])
    record = Record.load(CACHE / "record")
    changes = changed_files(ROOT, options.since)
    if not changes:
        _say(f"nothing differs from {options.since}")
        return 0
    sources = {path: _text(path) for path, _, _ in tree.modules()}
    choice = choose(
        tree,
        record,
        changes,
        sources,
        with_deep="not deep" not in options.rest,
        within=None if options.all else _WITHIN,
    )
    _explain(choice, record)
    if choice.everywhere:
        return subprocess.run(
            [sys.executable, "-m", "pytest", *ALL, *options.rest], cwd=ROOT, check=False
        ).returncode
    if not choice.files:
        return 0
    CACHE.mkdir(exist_ok=True)
    selection = CACHE / "choice"
    selection.write_text(json.dumps({"files": choice.files, "spared": choice.spared}), encoding="utf-8")
    spread = ALONE if choice.seconds < _QUICK and not choice.unknown else SPREAD
    code = _run(tree, record, [f"--near-choice={selection}", *spread, *options.rest, *choice.files])
    return 0 if code == _NO_TESTS else code


def _run(tree: Tree, record: Record, arguments: Sequence[str]) -> int:
    """Runs pytest with these arguments and adds what it records to `record`."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.near.plugin", *arguments]
    signal.signal(signal.SIGINT, lambda *_: None)  # pytest ends by it, and says how far it came
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with _recording(tree) as run:
        imports = watch_imports(tree, stale_imports(tree, record)) if run else None
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if run and imports:
            imports.wait()
            run.take_into(record)
            record.save(CACHE / "record")
    return code


@contextmanager
def _recording(tree: Tree) -> Iterator[Recording | None]:
    """A recording, if this machine can, and no other one is under way here."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say("another run records here: this one doesn't")
            yield None
            return
        if sys.prefix == sys.base_prefix or not os.path.exists("/proc/self/stat"):
            _say("not recorded: that needs a virtual environment and /proc")
            yield None
            return
        with recording(tree, CACHE / "code") as run:
            yield run


def _explain(choice: Choice, record: Record) -> None:
    if choice.everywhere:
        _say(f"{', '.join(choice.everywhere)} may change any test: all of them run")
        return
    if not record.tests:
        _say(
            "no record of what each test reaches: chosen by imports. To make one: scripts/test --near --record"
        )
    for path in choice.unreached:
        _say(f"no test reaches {path}")
    by_file = Counter(name.partition("::")[0] for name in choice.chosen)
    _say(
        f"{len(choice.chosen)} of {len(record.tests)} recorded tests, in {len(by_file)} files, about {choice.seconds:.0f} s of work"
    )
    if choice.in_doubt:
        _say(
            f"{choice.in_doubt} of them in doubt: they failed or were skipped, or start another Python, or what they"
            " reach has changed since; scripts/test --near --record renews the record"
        )
    if choice.put_off:
        _say(
            f"{choice.put_off} more, about {choice.put_off_seconds:.0f} s of work, reach it from further away and are left out: "
            "scripts/test --near --all"
        )
    if choice.deep:
        _say(f"{choice.deep} tests marked `deep` import it too and are left out: scripts/test --near --deep")
    if choice.unknown and record.tests:
        _say(
            f"{len(choice.unknown)} files without a record, chosen by imports or names: {', '.join(choice.unknown)}"
        )
    if choice.files:
        _say(f"nearest first: {', '.join(choice.files[:5])}{', ...' if len(choice.files) > 5 else ''}")


def _say(text: str) -> None:
    sys.stderr.write(f"near: {text}\n")


def _text(path: str) -> str:
    try:
        return (ROOT / path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
