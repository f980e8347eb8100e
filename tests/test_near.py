"""`scripts/test --near` runs every test that reaches a change, and few that don't."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.near.choosing import Choice, choose
from tests.near.graph import Graph
from tests.near.record import Record, as_mask, bits
from tests.near.sources import Difference, compare, mark
from tests.near.tree import Tree, changed_files
from tests.support import CRASHED, ROOT, git

OLD = '''
"""A module."""
import os
import re
LIMIT = 3
_WORD = re.compile("a")
_TABLE = {_WORD: 1}

def used(n):
    """Says something."""
    return n + LIMIT

def match(text):
    return _TABLE[_WORD.match(text)]

@command
def command(n):
    """The help of a command."""
    return open(n)

class Thing:
    size: int = 1

    def grow(self):
        return used(self.size)
'''
ALL = {"used", "match", "command", "Thing.grow"}


@pytest.mark.parametrize(
    ("old", "new", "units", "rest"),
    [
        ("return n + LIMIT", "return n - LIMIT", {"used"}, ""),
        ("return used(", "return -used(", {"Thing.grow"}, ""),
        ("Says something.", "Says another thing.", {"used"}, ""),
        ("The help", "The other help", {"command"}, "level"),
        ("size: int = 1", "size: int = 2", set(), "level"),
        ("size: int = 1", "size: int = 1\n    def __eq__(self, other): pass", {"Thing.__eq__"}, "level"),
        ("def used(n)", "def used(n, m=1)", set(), "level"),
        ("LIMIT = 3", "LIMIT = 4", {"used"}, "loading"),
        ('compile("a")', 'compile("b")', {"match"}, "loading"),
        ("_TABLE = {_WORD: 1}", "", {"match"}, "loading"),
        ("def match(text)", "def match(text, m=1)", set(), ""),
        ("import os", "import sys", set(), "loading"),
        ("import re\n", "", {"match"}, "loading"),
        ("import re\nLIMIT = 3", "LIMIT = 3\nimport re", set(), "level"),
        ("LIMIT = 3", "LIMIT = 3  # why", set(), ""),
        ("LIMIT = 3", "LIMIT = 3\nif TYPE_CHECKING:\n    import sys", set(), ""),
        ("LIMIT = 3", "LIMIT = 3\ndef new(): pass", {"new"}, ""),
        ("LIMIT = 3", "LIMIT = 3\ndef open(n): pass", {"open", "command"}, ""),
        ("LIMIT = 3", "LIMIT = 3\n@command\ndef new(): pass", {"new"}, "level"),
        ("LIMIT = 3", "LIMIT = 3\ndef __getattr__(name): pass", {"__getattr__"}, "level"),
        ("LIMIT = 3", "LIMIT = 3\nregister()", set(), "level"),
        ("def match(text)", "def renamed(text)", {"match", "renamed"}, ""),
        ("def used(n)", "def renamed(n)", {"used", "renamed"}, "level"),
        ("LIMIT = 3", "LIMIT =", ALL, "level"),
    ],
    ids=[
        "body of a function",
        "body of a method",
        "docstring of a function",
        "help of a command",
        "field of a class",
        "new method",
        "signature that others use",
        "constant",
        "constant behind a constant",
        "constant that is gone",
        "signature that no others use",
        "new import",
        "import that is gone",
        "order",
        "comment",
        "import for types",
        "new function",
        "new function that hides a name in use",
        "new function with a decorator",
        "new function that Python looks up",
        "new call",
        "function that is renamed",
        "function that others use and that is renamed",
        "syntax error",
    ],
)
def test_a_change_is_that_of_functions_or_of_the_module(
    old: str, new: str, units: set[str], rest: str
) -> None:
    assert old in OLD
    expected = Difference(frozenset(units), level=rest == "level", loading=rest == "loading")
    assert compare(OLD, OLD.replace(old, new), {"used"}.__contains__) == expected


def test_a_module_that_comes_or_disappears_changes_as_a_whole() -> None:
    everything = Difference(frozenset(ALL), level=True)
    assert compare(None, OLD, set().__contains__) == compare(OLD, None, set().__contains__) == everything


class Marks(dict[int, int]):
    """Takes the place of `hook.Marks`."""

    def view(self, module: str) -> Marks:
        assert module == "logist/a.py"
        return self


def test_marked_code_does_the_same_and_notes_what_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    source = dedent(
        '''
        """The text."""
        from __future__ import annotations
        def first(n: Unknown):
            """Another text."""
            def inner():
                return n / 0
            return inner
        class Thing:
            def second(self): yield 1
            async def third(self): pass
        '''
    )
    marks = Marks()
    monkeypatch.setattr(sys, "near", marks, raising=False)
    names: dict[str, Any] = {"__name__": "a"}
    exec(mark(source, "logist/a.py", "/a.py"), names)
    assert (names["__doc__"], names["first"].__doc__) == ("The text.", "Another text.")
    assert set(marks) == {0}
    inner = names["first"](1)
    assert set(marks) == {0, 1}
    marks.clear()
    with pytest.raises(ZeroDivisionError) as error:
        inner()
    assert error.traceback[-1].lineno == source.splitlines().index("        return n / 0")
    assert set(marks) == {1}
    assert [*names["Thing"]().second()] == [1]
    assert set(marks) == {1, 2}


def test_numbers_and_bits() -> None:
    for numbers in ([], [0], [7], [0, 3, 4000]):
        assert [*bits(as_mask(numbers))] == numbers


FILES = {
    ".gitignore": ".near/\n__pycache__/\n",
    "data/one.txt": "1",
    "data/two.txt": "2",
    "logist/__init__.py": "",
    "logist/plain.py": "def called(): return 1\n\ndef not_called(): return 2\n",
    "logist/table.py": "VALUE = 3\n",
    "logist/uses.py": "from logist.table import VALUE\n\ndef value(): return VALUE\n",
    "logist/cached.py": "from functools import cache\n\n@cache\ndef once(): return below()\n\ndef below(): return 4\n",
    "logist/later.py": "def load():\n    from logist.loaded import VALUE\n    return VALUE\n",
    "logist/loaded.py": "from logist.made import make\n\nVALUE = make()\n",
    "logist/made.py": "def make(): return 5\n",
    "logist/killed.py": """
        import os, signal

        def work():
            os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            work()
        """,
    "logist/forked.py": "import os\n\ndef child(): os._exit(0)\n",
    "logist/wide.py": "def set_up(): return 6\n",
    "logist/lonely.py": 'import sys\n\nif __name__ == "__main__":\n    sys.exit(7)\n',
    "logist/outer.py": 'import sys\n\nif __name__ == "__main__":\n    sys.exit(8)\n',
    "tests/__init__.py": "",
    "tests/conftest.py": "",
    "tests/helper.py": "from logist.plain import called\n\nCALLED = called()\n",
    "tests/test_files.py": """
        from pathlib import Path

        DATA = Path(__file__).parent.parent / "data"

        def test_opens(): assert (DATA / "one.txt").read_text()
        def test_lists(): assert any(DATA.iterdir())
        """,
    "tests/test_processes.py": """
        import os, subprocess, sys
        from pathlib import Path

        ROOT = Path(__file__).parent.parent
        NOTHING = {"PATH": os.environ["PATH"]}

        def test_kills():
            command = [sys.executable, "-m", "logist.killed"]
            assert subprocess.run(command, cwd=ROOT, env=NOTHING).returncode == -9

        def test_orphans(tmp_path):
            script = "import os\\nif os.fork(): os._exit(0)\\nos.setsid()\\n"
            script += "from logist.plain import called; called(); open(os.environ['END'], 'w').close()"
            end = tmp_path / "end"
            subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=NOTHING | {"END": str(end)}, check=True)
            while not end.exists():
                pass

        def test_forks():
            from logist.forked import child
            pid = os.fork()
            if not pid:
                child()
            os.waitpid(pid, 0)

        def test_starts_without_a_site():
            command = [sys.executable, "-I", "-S", str(ROOT / "logist" / "lonely.py")]
            assert subprocess.run(command, env={}).returncode == 7
        """,
    "tests/test_outer.py": """
        import os, subprocess, sys
        from pathlib import Path

        def test_starts_another_python():
            command = [os.path.realpath(sys.executable), "-m", "logist.outer"]  # what the environment was made with
            assert subprocess.run(command, cwd=Path(__file__).parent.parent, env={}).returncode == 8
        """,
    "tests/test_state.py": """
        import pytest
        from logist import cached, later, wide
        from logist.plain import called

        @pytest.fixture(scope="module")
        def wide_fixture(): return wide.set_up()

        def test_caches(): assert cached.once() == 4
        def test_caches_again(): assert cached.once() == 4
        def test_sets_up(wide_fixture): pass
        def test_sets_up_again(wide_fixture): pass
        def test_loads(): assert later.load() == 5
        def test_loads_again(): assert later.load() == 5
        def test_calls(): called()
        """,
    "tests/test_help.py": """
        from tests.helper import CALLED

        def test_helps(): assert CALLED == 1
        """,
    "tests/test_uses.py": """
        from logist import uses

        def test_uses(): assert uses.value() == 3
        """,
}
"""A project whose tests reach its code in all the ways that are hard to see."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That project with a record of its tests, made as a person makes it, with an environment for it alone."""
    root = tmp_path_factory.mktemp("recorded")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text), encoding="utf-8")
    shutil.copytree(
        ROOT / "tests" / "near", root / "tests" / "near", ignore=shutil.ignore_patterns("__pycache__")
    )
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    environment = root.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=CRASHED)
    packages = next((environment / "lib").glob("python*/site-packages"))
    (packages / "outer.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    ran = near(root, "--record", "--", "-n", "2", "--maxprocesses", "2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [each.name for each in packages.glob("*.pth")] == ["outer.pth"]
    return root


def near(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests.near` in that project."""
    own = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "TMPDIR": str(root.parent)}
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p no:cacheprovider"}
    command = [str(root.parent / "environment" / "bin" / "python"), "-m", "tests.near", *arguments]
    return subprocess.run(
        command, cwd=root, env=own | plain, capture_output=True, text=True, check=False, timeout=CRASHED
    )


@pytest.fixture
def project(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    project = tmp_path / "project"
    shutil.copytree(recorded, project, ignore=shutil.ignore_patterns("__pycache__"))
    return project


def chosen(root: Path, within: float | None = None) -> Choice:
    tree = Tree.read(root, root / ".near" / "files")
    sources = {path: (root / path).read_text(encoding="utf-8") for path, _, _ in tree.modules()}
    record = Record.load(root / ".near" / "record")
    return choose(tree, record, changed_files(root, "HEAD"), sources, within=within)


def names(root: Path) -> set[str]:
    choice = chosen(root)
    assert not choice.everywhere
    assert not choice.unknown
    return {name.partition("::")[2].removeprefix("test_") for name in choice.chosen}


def change(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text(encoding="utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.deep_beyond(4)
@pytest.mark.parametrize(
    ("path", "old", "new", "reaching"),
    [
        ("logist/plain.py", "return 1", "return 9", {"calls", "orphans", "helps"}),
        ("logist/plain.py", "return 2", "return 9", set()),
        ("logist/table.py", "VALUE = 3", "VALUE = 9", {"uses"}),
        ("logist/killed.py", "import os, signal", "import os, re, signal", {"kills"}),
        ("logist/uses.py", "return VALUE", "return 9", {"uses"}),
        ("logist/cached.py", "return 4", "return 9", {"caches", "caches_again"}),
        ("logist/made.py", "return 5", "return 9", {"loads", "loads_again"}),
        ("logist/loaded.py", "VALUE = make()", "VALUE = 9", {"loads", "loads_again"}),
        ("logist/wide.py", "return 6", "return 9", {"sets_up", "sets_up_again"}),
        ("logist/killed.py", "    os.kill(", "    print(); os.kill(", {"kills"}),
        ("logist/forked.py", "os._exit(0)", "os._exit(9)", {"forks"}),
        ("logist/lonely.py", "sys.exit(7)", "sys.exit(9)", {"starts_without_a_site"}),
        ("logist/outer.py", "sys.exit(8)", "sys.exit(9)", {"starts_another_python"}),
        ("data/one.txt", "1", "9", {"opens"}),
        ("tests/helper.py", "called()", "9", {"helps"}),
        ("tests/test_uses.py", "== 3", "== 9", {"uses"}),
    ],
    ids=[
        "a function",
        "a function that nothing calls",
        "a constant",
        "an import",
        "a function that reads a constant",
        "a function behind a cache",
        "a function that runs at import",
        "a module that is imported later",
        "a wide fixture",
        "a process that is killed",
        "a fork that exits",
        "a program that starts without a site",
        "a program of another Python",
        "a file that is read",
        "a helper of tests",
        "a test",
    ],
)
def test_the_tests_that_reach_a_change_run(
    project: Path, path: str, old: str, new: str, reaching: set[str]
) -> None:
    change(project, path, old, new)
    assert names(project) == reaching


def test_a_new_file_in_a_directory_that_is_listed(project: Path) -> None:
    (project / "data" / "three.txt").write_text("3", encoding="utf-8")
    assert names(project) == {"lists"}


def test_nothing_is_run_for_a_file_that_no_test_reaches_and_it_says_so(project: Path) -> None:
    (project / "NOTES").write_text("new", encoding="utf-8")
    choice = chosen(project)
    assert (choice.files, choice.unreached) == ([], ["NOTES"])


@pytest.mark.parametrize("path", ["pyproject.toml", "tests/conftest.py", "requirements/test.txt"])
def test_what_may_change_any_test_runs_all(project: Path, path: str) -> None:
    (project / path).parent.mkdir(exist_ok=True)
    (project / path).write_text("# new\n", encoding="utf-8")
    assert chosen(project).everywhere == [path]


def test_a_test_that_the_record_does_not_know_runs_if_it_imports_the_change(project: Path) -> None:
    (project / "tests" / "test_new.py").write_text("from logist import uses\n", encoding="utf-8")
    (project / "tests" / "test_else.py").write_text("from logist import plain\n", encoding="utf-8")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "second")
    change(project, "logist/table.py", "3", "9")
    assert chosen(project).unknown == ["tests/test_new.py"]


def test_a_test_whose_code_has_changed_since_the_record_is_in_doubt(project: Path) -> None:
    change(project, "logist/uses.py", "return VALUE", "from logist.plain import called; return called()")
    git(project, "commit", "--quiet", "--all", "--message", "second")
    change(project, "logist/plain.py", "return 1", "return 9")
    choice = chosen(project)
    assert "tests/test_uses.py::test_uses" in choice.chosen
    assert choice.in_doubt == 1


def test_a_test_that_was_skipped_or_failed_is_in_doubt(recorded: Path) -> None:
    change(recorded, "logist/table.py", "3", "9")
    try:
        assert near(recorded).returncode == 1
        git(recorded, "checkout", "--quiet", "logist")
        change(recorded, "logist/uses.py", "def value()", "def other(): pass\n\ndef value()")
        assert names(recorded) == {"uses"}
    finally:
        git(recorded, "checkout", "--quiet", "logist")


def test_without_a_record_imports_choose(project: Path) -> None:
    (project / ".near" / "record").unlink()
    change(project, "logist/table.py", "3", "9")
    assert chosen(project).unknown == ["tests/test_uses.py"]


def test_the_nearest_tests_come_first(project: Path) -> None:
    change(project, "logist/uses.py", "return VALUE", "return 9")
    change(project, "logist/plain.py", "return 1", "return 9")
    change(project, "tests/test_help.py", "== 1", "== 9")
    assert chosen(project).files[:2] == ["tests/test_help.py", "tests/test_uses.py"]


def test_the_furthest_are_left_out_where_time_is_short_and_never_the_mirror(project: Path) -> None:
    change(project, "logist/plain.py", "return 1", "return 9")
    change(project, "logist/uses.py", "return VALUE", "return 9")
    everything = chosen(project)
    assert not everything.put_off
    short = chosen(project, within=0.0)
    assert short.chosen == ["tests/test_uses.py::test_uses"]
    assert short.put_off == len(everything.chosen) - 1
    assert short.seconds + short.put_off_seconds == pytest.approx(everything.seconds)
    assert not short.unreached


@pytest.mark.deep
def test_a_run_takes_the_chosen_tests_alone_and_records_them_again(recorded: Path) -> None:
    change(recorded, "logist/plain.py", "return 2", "from logist.table import VALUE; return VALUE")
    change(
        recorded, "logist/uses.py", "return VALUE", "from logist.plain import not_called; return not_called()"
    )
    try:
        ran = near(recorded, "--", "-v")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "1 passed" in ran.stdout
        assert "tests/test_uses.py::test_uses PASSED" in ran.stdout
        git(recorded, "commit", "--quiet", "--all", "--message", "second")
        change(recorded, "logist/plain.py", "return VALUE", "return 9")
        assert names(recorded) == {"uses"}
        ran = near(recorded)
        assert ran.returncode == 1
        assert "1 of 16 recorded tests, in 1 files" in ran.stderr
    finally:
        git(recorded, "reset", "--quiet", "--hard", "HEAD")


def test_the_graph_follows_what_is_named_in_strings_and_loaded_late(project: Path) -> None:
    tree = Tree.read(project, project / "files")
    graph = Graph(tree)
    assert graph.loaded_by("logist/uses.py") == {"logist/__init__.py", "logist/table.py", "logist/uses.py"}
    assert "logist/loaded.py" not in graph.loaded_by("logist/later.py")
    assert graph.imported_later("logist/later.py") == {"load": {"logist/__init__.py", "logist/loaded.py"}}
    assert "tests/test_processes.py" in graph.importers(["logist/killed.py"])
