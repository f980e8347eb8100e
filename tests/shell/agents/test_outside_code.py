"""Code that commands of a workspace would run although it lies elsewhere: found in files, nothing is run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from logist.agents.outside_code import (
    Ecosystem,
    OutsideCode,
    find_missing_modules,
    find_outside_code,
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site-packages of a virtual environment, whose programs are in `tmp_path / "venv" / "bin"`."""
    folder = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n", "utf-8")
    program(tmp_path / "venv" / "bin" / "python3", "#!/bin/sh\n")
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def installed(site: Path, name: str, place: Path, *, editable: bool = True) -> None:
    """What pip notes of an install from a directory."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    record = {"url": place.as_uri(), "dir_info": {"editable": editable}}
    (folder / "direct_url.json").write_text(json.dumps(record), "utf-8")


def made(*parts: str | Path) -> Path:
    folder = Path(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def found(tmp_path: Path, *, above: bool = False) -> list[OutsideCode]:
    workspace = made(tmp_path, "job", "workspace")
    return find_outside_code(workspace, str(tmp_path / "venv" / "bin"), above=above)


def test_a_line_of_a_pth_file_is_named_after_its_install(tmp_path: Path, site: Path) -> None:
    project = made(tmp_path, "my project")
    src = made(project, "src")
    installed(site, "shop", project)
    installed(site, "wheel_of_a_directory", made(tmp_path, "other"), editable=False)
    (site / "shop.pth").write_text(f"# comment\n\nimport os\n{src}\n/no/such/place\n", "utf-8")
    (site / "inside.pth").write_text("made/here\n", "utf-8")
    made(site, "made", "here")
    assert found(tmp_path) == [OutsideCode("Python", "shop", src)]


def test_an_install_with_an_import_hook_that_goes_before_the_path(tmp_path: Path, site: Path) -> None:
    """setuptools appends its hook, so PYTHONPATH wins; meson-python and scikit-build-core put theirs first."""
    late, early = made(tmp_path, "late"), made(tmp_path, "early")
    installed(site, "my_late", late)
    (site / "__editable___my_late_1_0_finder.py").write_text("MAPPING = {}\n", "utf-8")
    (site / "__editable__.my_late-1.0.pth").write_text("import __editable___my_late_1_0_finder\n", "utf-8")
    installed(site, "early", made(early))
    (site / "early-editable.pth").write_text("import _early_editable_loader\n", "utf-8")
    assert found(tmp_path) == [
        OutsideCode("Python", "early", early, overrides=True),
        OutsideCode("Python", "my_late", late),
    ]


def test_an_import_hook_of_setuptools_says_where_its_packages_are(tmp_path: Path, site: Path) -> None:
    """An entry of PYTHONPATH replaces it only if that directory holds a package of that name."""
    project = made(tmp_path, "project")
    installed(site, "shop", project)
    mapping = {
        "shop": str(made(project, "lib", "shop")),
        "renamed": str(made(project, "other")),
        "part.of": str(made(project, "third", "part", "of")),
    }
    spaces = {"space": [str(made(project, "fourth", "space"))]}
    text = f"MAPPING: dict[str, str] = {mapping!r}\nNAMESPACES: dict[str, list[str]] = {spaces!r}\n"
    (site / "__editable___shop_1_0_finder.py").write_text(text, "utf-8")
    assert found(tmp_path) == [
        OutsideCode("Python", "shop", project / "lib"),
        OutsideCode("Python", "shop", project, overrides=True),
        OutsideCode("Python", "shop", project / "third"),
        OutsideCode("Python", "shop", project / "fourth"),
    ]


def test_pth_files_that_move_their_directories_to_the_front_of_the_path(tmp_path: Path, site: Path) -> None:
    place, other = made(tmp_path, "place"), made(tmp_path, "other")
    code = "import sys; new = sys.path[sys.__plen:]; sys.path[0:0] = new"
    (site / "a.pth").write_text(f"import sys; sys.__plen = len(sys.path)\n{place}\n{code}\n", "utf-8")
    (site / "b.pth").write_text(f"import sys; sys.path.insert(0, '{other}')\n", "utf-8")
    assert found(tmp_path) == [
        OutsideCode("Python", "place", place, overrides=True),
        OutsideCode("Python", "other", other, overrides=True),
    ]


def test_packages_that_are_links(tmp_path: Path, site: Path) -> None:
    (site / "shop").symlink_to(made(tmp_path, "project", "lib", "shop"))
    (site / "renamed").symlink_to(made(tmp_path, "third", "other"))
    (made(tmp_path, "second") / "module.py").touch()
    (site / "module.py").symlink_to(tmp_path / "second" / "module.py")
    assert found(tmp_path) == [
        OutsideCode("Python", "second", tmp_path / "second"),
        OutsideCode("Python", "third", tmp_path / "third", overrides=True),
        OutsideCode("Python", "lib", tmp_path / "project" / "lib"),
    ]


def test_an_egg_link(tmp_path: Path, site: Path) -> None:
    (site / "old.egg-link").write_text(f"{made(tmp_path, 'old')}\n.\n", "utf-8")
    assert [each.name for each in found(tmp_path)] == ["old"]


def test_the_python_that_runs_a_script_is_looked_at(tmp_path: Path, site: Path) -> None:
    (site / "x.pth").write_text(f"{made(tmp_path, 'x')}\n", "utf-8")
    program(tmp_path / "tools" / "pytest", f"#!{tmp_path}/venv/bin/python3\n")
    workspace = made(tmp_path, "workspace")
    assert [each.name for each in find_outside_code(workspace, str(tmp_path / "tools"))] == ["x"]


def test_a_script_that_the_shell_starts_belongs_to_its_environment(tmp_path: Path, site: Path) -> None:
    """So pip writes scripts where the path of their Python is long, or has a space."""
    (site / "x.pth").write_text(f"{made(tmp_path, 'x')}\n", "utf-8")
    script = tmp_path / "venv" / "bin" / "pytest"
    program(script, '#!/bin/sh\n\'\'\'exec\' "/a b/python3" "$0" "$@"\n')
    workspace, tools = made(tmp_path, "workspace"), str(made(tmp_path, "tools"))
    assert [each.name for each in find_outside_code(workspace, tools, [str(script)])] == ["x"]
    assert [each.name for each in find_outside_code(workspace, tools, ["../venv/bin/pytest"])] == ["x"]
    assert find_outside_code(workspace, tools, ["venv/bin/pytest"]) == []


def test_what_is_installed_from_the_workspace_itself_is_not_outside(tmp_path: Path, site: Path) -> None:
    workspace = made(tmp_path, "job", "workspace")
    (site / "x.pth").write_text(f"{made(workspace, 'src')}\n", "utf-8")
    assert found(tmp_path) == []


def test_files_that_are_none_hold_nobody_up(tmp_path: Path, site: Path) -> None:
    os.mkfifo(site / "pipe.pth")
    os.mkfifo(site.parents[2] / "bin" / "pytest", 0o755)
    (site / "bytes.pth").write_bytes(b"\xff\0\n" * 1000)
    (site / "bad-1.0.dist-info").mkdir()
    (site / "bad-1.0.dist-info" / "direct_url.json").write_text('{"url": 1}', "utf-8")
    workspace = made(tmp_path, "job", "workspace")
    for name in ("go.mod", "go.work", "Cargo.toml"):
        os.mkfifo(workspace / name)
    (workspace / "package.json").symlink_to("/dev/zero")
    assert found(tmp_path) == []


def test_linked_node_modules(tmp_path: Path) -> None:
    workspace = made(tmp_path, "job", "workspace")
    (workspace / "package.json").write_text("{}", "utf-8")
    modules = made(workspace, "node_modules", "@me").parent
    outside = made(tmp_path, "lib")
    (modules / "lib").symlink_to(outside)
    (modules / "@me" / "own").symlink_to(made(workspace, "packages", "own"))
    (modules / "@me" / "other").symlink_to(outside)
    assert {(each.name, each.place) for each in found(tmp_path)} == {("lib", outside), ("@me/other", outside)}


def test_node_modules_above_the_workspace_that_lead_to_a_checkout(tmp_path: Path) -> None:
    """Node looks in the directories above, and an npm workspace has links there into the user's own files."""
    workspace = made(tmp_path, "job", "workspace")
    (workspace / "package.json").write_text("{}", "utf-8")
    modules = made(tmp_path, "node_modules")
    for name in ("core", "shadowed", "installed"):
        made(tmp_path, "packages", name)
    (modules / "core").symlink_to("../packages/core")
    (modules / "shadowed").symlink_to("../packages/shadowed")
    made(modules, ".store", "installed")
    (modules / "installed").symlink_to(".store/installed")
    made(workspace, "node_modules", "shadowed")
    core = OutsideCode("Node", "core", tmp_path / "packages" / "core", overrides=True)
    assert found(tmp_path, above=True) == [core]
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "ecosystem"),
    [("package.json", "Node"), ("go.mod", "Go"), ("Cargo.toml", "Cargo"), ("pytest.ini", "Python")],
)
def test_a_project_around_the_workspace_is_used_where_that_has_none(
    tmp_path: Path, name: str, ecosystem: Ecosystem
) -> None:
    """npm, go, cargo and pytest look for their file in the directories above."""
    (tmp_path / name).touch()
    around = OutsideCode(ecosystem, tmp_path.name, tmp_path, overrides=True, missing=name)
    assert around in found(tmp_path, above=True)
    assert found(tmp_path) == []
    (tmp_path / "job" / "workspace" / name).touch()
    assert around not in found(tmp_path, above=True)


def test_modules_that_only_one_directory_has(tmp_path: Path) -> None:
    place, root = made(tmp_path, "place"), made(tmp_path, "root")
    for folder in (place, root):
        for name in ("both.py", "shop/__init__.py", "space/part/__init__.py", "space/module.py"):
            made((folder / name).parent)
            (folder / name).touch()
    assert find_missing_modules(place, [root]) == []
    for name in ("shop/new.py", "setup.py", "x.txt"):
        (place / name).touch()
    (made(place, "build", "lib", "shop") / "__init__.py").touch()
    assert find_missing_modules(place, [root]) == []
    (root / "shop" / "__init__.py").unlink()  # then the package of the other directory wins
    (root / "space" / "module.py").unlink()
    (root / "both.py").unlink()
    (place / "fast.cpython-311-x86_64-linux-gnu.so").touch()
    missing = ["both.py", "fast.cpython-311-x86_64-linux-gnu.so", "shop/__init__.py", "space/module.py"]
    assert find_missing_modules(place, [root]) == missing
    assert find_missing_modules(place, [root, place]) == []


def test_go_workspaces_and_replacements(tmp_path: Path) -> None:
    workspace = made(tmp_path, "job", "workspace")
    for name in ("used", "replaced", "also"):
        made(tmp_path, "job", name)
    made(workspace, "inside")
    (workspace / "go.work").write_text(
        "go 1.22\n\nuse (\n\t./inside // ours\n\t../used\n)\nreplace example.org/a v1 => ../replaced\n",
        "utf-8",
    )
    (workspace / "go.mod").write_text(
        "module x\n//nothing\nreplace example.org/b => example.org/c v1.2.3\n", "utf-8"
    )
    (workspace / "inside" / "go.mod").write_text('replace example.org/d => "../../also"\n', "utf-8")
    assert sorted(each.name for each in found(tmp_path)) == ["also", "replaced", "used"]


def test_cargo_paths(tmp_path: Path) -> None:
    workspace = made(tmp_path, "job", "workspace")
    for name in ("dep", "patched", "overridden", "above"):
        made(tmp_path, "job", name)
    (workspace / "Cargo.toml").write_text(
        '[dependencies]\na = {path = "../dep"}\nb = {path = "crates/b"}\n'
        '[patch.crates-io]\nc = {path = "../patched"}\n',
        "utf-8",
    )
    (made(workspace, ".cargo") / "config.toml").write_text('paths = ["../overridden"]\n', "utf-8")
    (made(tmp_path, ".cargo") / "config.toml").write_text('paths = ["job/above"]\n', "utf-8")
    names = {each.name for each in found(tmp_path)}
    assert names == {"dep", "patched", "overridden"}
    assert {each.name for each in found(tmp_path, above=True)} == {*names, "above"}
