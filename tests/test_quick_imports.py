"""The program imports its own modules as the import system would, also when their files change."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import process_environment

PRELUDE = """
import sys
from logist.quick_imports import find_quickly

find_quickly(sys.path[0] + "/package")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with modules and a package in it, all compiled."""
    package = tmp_path / "package"
    below = package / "below"
    below.mkdir(parents=True)
    (package / "__init__.py").write_text("", "utf-8")
    (package / "module.py").write_text("VALUE = 1\n", "utf-8")
    (below / "__init__.py").write_text("VALUE = 2\n", "utf-8")
    (below / "module.py").write_text("VALUE = 3\n", "utf-8")
    assert compileall.compile_dir(package, quiet=1)
    return package


def run(folder: Path, code: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=folder,
        env=process_environment() | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_quickly(folder: Path, code: str, *options: str) -> str:
    return run(folder, f"import sys; sys.path.insert(0, {str(folder)!r})\n{PRELUDE}\n{code}", *options)


DESCRIBE = """
import package, package.module, package.below, package.below.module as deep

for module in (package.module, package.below, deep):
    spec = module.__spec__
    print(module.VALUE, module.__file__, module.__package__, getattr(module, "__path__", None), module.__cached__)
    print(spec.name, spec.origin, spec.parent, spec.submodule_search_locations, spec.has_location, spec.cached)
    print(spec.loader.get_source(module.__name__), spec.loader.is_package(module.__name__))
import pkgutil
print([each.name for each in pkgutil.iter_modules(package.__path__)])
"""


def test_modules_are_as_the_import_system_makes_them(package: Path) -> None:
    ordinary = run(package.parent, DESCRIBE)
    assert ordinary.startswith("1 ")
    assert run_quickly(package.parent, DESCRIBE) == ordinary


PRINT = "import package.module as module; print(module.VALUE, type(module.__loader__).__module__)"


def test_a_compiled_file_is_used(package: Path) -> None:
    """The source has another value, but the same size and time as when it was compiled."""
    source = package / "module.py"
    status = source.stat()
    source.write_text("VALUE = 7\n", "utf-8")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run_quickly(package.parent, PRINT) == "1 logist.quick_imports\n"


def test_a_changed_source_is_compiled_again(package: Path) -> None:
    (package / "module.py").write_text("VALUE = 'longer'\n", "utf-8")
    assert run_quickly(package.parent, PRINT) == "longer logist.quick_imports\n"
    source = package / "module.py"
    source.write_text("VALUE = 8\n", "utf-8")
    os.utime(source, (1, 1))
    assert run_quickly(package.parent, PRINT) == "8 logist.quick_imports\n"


@pytest.mark.parametrize("data", [None, b"", b"short", bytes(16) + b"of another Python"])
def test_a_compiled_file_that_is_missing_or_damaged_is_not_used(package: Path, data: bytes | None) -> None:
    compiled = next((package / "__pycache__").glob("module.*.pyc"))
    compiled.unlink()
    if data is not None:
        compiled.write_bytes(data)
    assert run_quickly(package.parent, PRINT) == "1 logist.quick_imports\n"


def test_a_moved_directory_has_its_new_paths(package: Path, tmp_path: Path) -> None:
    moved = tmp_path / "new"
    moved.mkdir()
    package.rename(moved / "package")
    code = "from package import module; exec('def f(): raise ValueError')\nprint(module.__file__)"
    assert run_quickly(moved, code) == f"{moved}/package/module.py\n"
    code = "import package.module as m; print(m.__spec__.loader.get_code(m.__name__).co_filename)"
    assert run_quickly(moved, code) == f"{moved}/package/module.py\n"


def test_what_is_no_package_and_what_is_new_is_found(package: Path) -> None:
    """A directory without modules is left behind when a package becomes a module."""
    (package / "module").mkdir()
    code = """
import os
from package import module

print(module.VALUE)
with open(f"{sys.path[0]}/package/later.py", "w") as file:
    file.write("VALUE = 4")
from package import later

print(later.VALUE)
try:
    import package.missing
except ModuleNotFoundError as error:
    print(error)
"""
    assert run_quickly(package.parent, code) == "1\n4\nNo module named 'package.missing'\n"


def test_optimized_code_is_not_mixed_up(package: Path) -> None:
    (package / "module.py").write_text("VALUE = __debug__\n", "utf-8")
    assert run_quickly(package.parent, "from package import module; print(module.VALUE)") == "True\n"
    assert run_quickly(package.parent, "from package import module; print(module.VALUE)", "-O") == "False\n"


def test_only_the_program_imports_quickly(tmp_path: Path) -> None:
    show = "import sys, logist.cli; print(type(sys.modules['logist.cli.main'].__loader__).__module__)"
    assert run(tmp_path, f"import logist.__main__; {show}") == "logist.quick_imports\n"
    assert "quick_imports" not in run(tmp_path, show)
