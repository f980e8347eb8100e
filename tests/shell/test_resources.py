"""Shipped files are found in a checkout and in an installed package alike."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import logist
from logist.errors import StorageError
from logist.resources import find_resource

PACKAGE = Path(logist.__file__).parent


def installed(site: Path) -> Path:
    """The modules that `logist.resources` needs, laid out as a wheel installs them."""
    package = site / "logist"
    (package / "_data" / "roles").mkdir(parents=True)
    for name in ("__init__.py", "version.py", "errors.py", "resources.py"):
        shutil.copyfile(PACKAGE / name, package / name)
    return package


def python(code: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_checkout_has_them_at_the_top_of_its_tree() -> None:
    assert find_resource("roles", "Worker.yaml") == PACKAGE.parent / "roles" / "Worker.yaml"
    assert find_resource("roles").is_dir()
    assert find_resource("schemas").is_dir()


def test_an_installed_package_has_them_inside(tmp_path: Path) -> None:
    package = installed(tmp_path)
    role = package / "_data" / "roles" / "Worker.yaml"
    role.write_text("name: Worker\n", "utf-8")
    code = "from logist.resources import find_resource; print(find_resource('roles', 'Worker.yaml'))"
    assert python(code, tmp_path) == str(role)


def test_an_incomplete_installation_says_so(tmp_path: Path) -> None:
    installed(tmp_path)
    code = (
        "from logist.errors import StorageError\n"
        "from logist.resources import find_resource\n"
        "try:\n    find_resource('schemas', 'x.json')\n"
        "except StorageError as error:\n    print(error.where, error.fix, sep='|')"
    )
    missing = tmp_path / "logist" / "_data" / "schemas" / "x.json"
    assert python(code, tmp_path) == f"{missing}|reinstall Logist"


def test_what_is_not_shipped_is_an_error() -> None:
    with pytest.raises(StorageError, match="missing"):
        find_resource("roles", "Nobody.yaml")


def test_the_lookup_is_cheap_to_import() -> None:
    heavy = ("click", "pydantic", "ruamel", "importlib.resources")
    code = f"import logist.resources; print([name for name in {heavy} if name in sys.modules])"
    assert python(code, PACKAGE.parent) == "[]"
