"""The comparison with other programs: how they are installed, what is recorded, and that docs/comparison.md is what was recorded."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.support import ROOT

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.fixture
def install() -> Any:
    return importlib.import_module("peers_install")


@pytest.fixture
def tables() -> Any:
    return importlib.import_module("peers_tables")


class TestInstalling:
    def test_a_peer_that_cannot_be_installed_is_named_and_no_other_is_affected(
        self, install: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))  # without npm
        add_installed(install, tmp_path, "doit")
        peers = install.install_peers(["codex", "doit"], tmp_path)
        assert isinstance(peers["codex"], install.Missing)
        assert str(peers["codex"]) == "npm is not installed"
        assert not (tmp_path / "codex").exists()
        assert peers["doit"].versions == "doit 0.37.0"
        assert Path(peers["doit"].command).name == "doit"

    def test_an_installer_gets_no_key(self, install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy")
        with pytest.raises(install.Missing) as raised:
            install._run_installer([sys.executable, "-c", "import os, sys; sys.exit(' '.join(os.environ))"])
        assert "PATH" in str(raised.value)
        assert "KEY" not in str(raised.value)

    def test_what_was_moved_is_installed_again(
        self, install: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))  # without npm
        add_installed(install, tmp_path, "codex")
        assert isinstance(install.install_peers(["codex"], tmp_path)["codex"], install.Installed)
        tmp_path.joinpath("elsewhere").mkdir()
        (tmp_path / "codex").rename(tmp_path / "elsewhere" / "codex")
        assert isinstance(install.install_peers(["codex"], tmp_path / "elsewhere")["codex"], install.Missing)

    def test_every_peer_has_a_pinned_version(self, install: Any) -> None:
        for peer in install.PEERS.values():
            assert all(all(install.split_version(package)) for package in peer.packages), peer.title
        titles = [peer.title for peer in install.PEERS.values()]
        assert len(set(titles)) == len(titles)

    @pytest.mark.parametrize(
        ("package", "parts"),
        [("doit==0.37.0", ("doit", "0.37.0")), ("@openai/codex@0.171.0", ("@openai/codex", "0.171.0"))],
    )
    def test_a_version_is_split_off(self, install: Any, package: str, parts: tuple[str, str]) -> None:
        assert install.split_version(package) == parts

    @pytest.mark.parametrize(
        ("errors", "reason"),
        [
            ("WARNING: x\nERROR: No matching distribution\nnote", "ERROR: No matching distribution"),
            ("npm error code E404\nnpm error 404", "npm error 404"),
            ("\nlast\n", "last"),
            ("", "no message"),
        ],
    )
    def test_the_reason_is_the_last_error(self, install: Any, errors: str, reason: str) -> None:
        assert install.choose_reason(errors) == reason


def add_installed(install: Any, place: Path, name: str) -> None:
    """A directory as it is after the installation."""
    folder, peer = place / name, install.PEERS[name]
    bin_ = folder / ("bin" if peer.registry == "pip" else "node_modules/.bin")
    bin_.mkdir(parents=True)
    (bin_ / peer.command).touch()
    (folder / "installed.json").write_text(json.dumps([*peer.packages, str(folder)]))


class TestRecording:
    @pytest.fixture
    def files(self, tables: Any, tmp_path: Path) -> Json:
        page = f"before\n\n{tables.BEGIN}\nold\n{tables.END}\n\nafter\n"
        (tmp_path / "page.md").write_text(page, "utf-8")
        return {"recorded_file": tmp_path / "recorded.json", "page_file": tmp_path / "page.md"}

    def table(self, tables: Any, name: str, cell: str = "1") -> Any:
        return tables.Table(name, f"Title of {name}", "A note.", ("", "ms"), [("Logist", cell)])

    def run(self, tables: Any, date: str = "2026-01-02", **missing: str) -> Any:
        versions = {} if missing else {"DBOS": "dbos 1"}
        return tables.Run(date, "2 cores", {"Logist": "Logist 1", **versions}, missing)

    def test_tables_are_put_between_the_markers_in_their_order(self, tables: Any, files: Json) -> None:
        measured = [self.table(tables, "step"), self.table(tables, "startup", "a|b")]
        tables.record_tables(measured, self.run(tables), **files)
        page = files["page_file"].read_text("utf-8")
        assert page.startswith(f"before\n\n{tables.BEGIN}\n\n### Title of startup\n")
        assert page.endswith(f"{tables.END}\n\nafter\n")
        assert page.index("Title of startup") < page.index("Title of step")
        assert "| Logist | a\\|b |" in page
        assert "Measured on 2026-01-02: 2 cores." in page
        assert "Logist 1" in page
        assert "old" not in page

    def test_a_table_replaces_what_was_recorded_of_it_and_no_other(self, tables: Any, files: Json) -> None:
        tables.record_tables(
            [self.table(tables, "step"), self.table(tables, "append")], self.run(tables), **files
        )
        tables.record_tables([self.table(tables, "step", "7")], self.run(tables, "2026-01-03"), **files)
        recorded = tables.read_recorded(files["recorded_file"])
        cells = {table["name"]: (table["rows"][0][1], table["run"]["date"]) for table in recorded["tables"]}
        assert cells == {"step": ("7", "2026-01-03"), "append": ("1", "2026-01-02")}

    def test_a_peer_that_is_missing_is_named_until_it_is_there(self, tables: Any, files: Json) -> None:
        without = self.run(tables, DBOS="pip failed: no | wheel")
        tables.record_tables([self.table(tables, "step")], without, **files)
        line = "- Not measured: DBOS, because it could not be installed here (pip failed: no \\| wheel)."
        assert line in files["page_file"].read_text("utf-8")
        tables.record_tables([self.table(tables, "step")], self.run(tables), **files)
        page = files["page_file"].read_text("utf-8")
        assert "Not measured" not in page
        assert "dbos 1" in page

    def test_nothing_recorded_says_so(self, tables: Any, tmp_path: Path) -> None:
        assert "No run is recorded." in tables.render_tables(tables.read_recorded(tmp_path / "none.json"))

    @pytest.mark.parametrize(
        ("value", "own", "shown"),
        [(3.0, 2.0, "1.50"), (5000.0, 2.0, "2,500"), (None, 2.0, ""), (3.0, None, "")],
    )
    def test_a_ratio(self, tables: Any, value: float | None, own: float | None, shown: str) -> None:
        assert tables.format_ratio(value, own) == shown


class TestPage:
    def test_the_block_is_what_was_recorded(self, tables: Any) -> None:
        block = tables.cut_block(tables.PAGE.read_text("utf-8"))
        assert block == tables.render_tables(tables.read_recorded()), "run benchmarks/peers.py --record"

    def test_each_table_is_recorded_with_logist_in_it(self, tables: Any) -> None:
        peers = importlib.import_module("peers")
        recorded = {table["name"]: table for table in tables.read_recorded()["tables"]}
        assert set(recorded) == {*peers.TABLES, *peers.KILL_TABLES}
        for table in recorded.values():
            assert any("Logist" in row[0] for row in table["rows"]), table["name"]
            assert all(len(row) == len(table["head"]) for row in table["rows"]), table["name"]

    def test_each_peer_has_its_version_or_the_reason_why_it_is_missing(
        self, tables: Any, install: Any
    ) -> None:
        recorded = tables.read_recorded()
        assert {*recorded["versions"], *recorded["missing"]} == {
            "Logist",
            *(peer.title for peer in install.PEERS.values()),
        }


class TestMeasuring:
    def test_a_program_that_fails_is_a_reason_and_no_end(self, tmp_path: Path) -> None:
        turns = importlib.import_module("peers_turns")
        with pytest.raises(turns.Failed, match="exit code 3: it broke"):
            turns.run_program([sys.executable, "-c", "print('it broke'); exit(3)"], tmp_path)

    def test_a_peer_that_fails_has_a_row_that_says_so(
        self, install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        turns = importlib.import_module("peers_turns")
        peer = install.Installed(
            "dbos", "DBOS", "dbos 1", tmp_path, sys.executable, ""
        )  # without its package
        lab = turns.Lab({"dbos": peer}, tmp_path, "http://127.0.0.1:9/v1", quick=True)
        way = next(way for way in turns.REPLAYS if way.peer == "dbos")
        monkeypatch.setattr(turns, "REPLAYS", (way,))
        ((name, *_, reason),) = turns.table_replays(lab).rows
        assert name == way.title
        assert reason == "failed: exit code 1: ModuleNotFoundError: No module named 'dbos'"

    @pytest.mark.parametrize(
        "names",
        [
            "call",
            *(
                pytest.param(names, marks=pytest.mark.deep)
                for names in ("startup", "step", "command append", "replay listing")
            ),
        ],
    )
    def test_logist_is_measured_without_peers(self, tmp_path: Path, names: str) -> None:
        argv = ["--peers", "--quick", "--folder", str(tmp_path), "--only", *names.split()]
        done = subprocess.run(
            [sys.executable, str(ROOT / "benchmarks" / "peers.py"), *argv],
            cwd=tmp_path,
            env=support.process_environment(),
            capture_output=True,
            text=True,
            timeout=5 * support.CRASHED,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "failed" not in done.stdout
        for name in names.split():
            assert f"({name})" in done.stdout
