"""The documents say what is true: the command line, links, fields, exit codes, states."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from logist import formats
from logist.cli.shell_values import PROGRAMS
from logist.config.providers import SHIPPED_PROVIDERS
from logist.config.sections import Notify
from logist.config.settings import Settings
from logist.core.model import Interaction, JobSpec, Kind, Role, State, Status
from logist.core.model.state import STATE_FIELDS
from logist.errors import LogistError
from tests import support
from tests.support import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def test_the_command_line_reference_is_current() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "docs"), "--print"],
        capture_output=True,
        env=support.process_environment(),
        check=True,
    ).stdout.decode("utf-8")
    assert page("cli.md") == made, "run scripts/docs"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: object) -> None:
    assert isinstance(path, type(ROOT))
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target
            # The site has only the folder docs, so a link out of it would lead nowhere there.
            assert path.parent == ROOT or not target.startswith("../"), target


@pytest.mark.parametrize(
    ("name", "model"),
    [("job-directory.md", State), ("job-directory.md", Interaction), ("job-directory.md", JobSpec)],
)
def test_every_field_is_explained(name: str, model: type[State | Interaction | JobSpec]) -> None:
    text = page(name)
    fields = STATE_FIELDS if model is State else model.model_fields
    missing = [field for field in fields if not re.search(rf"`{field}[`.]", text)]
    assert missing == []


def test_the_table_of_versions_is_that_of_the_code() -> None:
    table = page("job-directory.md").partition("\n## Versions")[2]
    rows = [
        f"| {each.name} | {each.version} | {each.files} | {each.recorded_in} | {each.if_newer} |"
        for each in formats.FORMATS
    ]
    assert [line for line in table.splitlines() if line.startswith("|")][2:] == rows


def test_every_setting_is_explained() -> None:
    text = page("configuration.md")
    assert [field for field in Settings.model_fields if not re.search(rf"`{field}[`.]", text)] == []


def test_one_table_has_the_settings_of_roles_and_context_with_their_defaults() -> None:
    section = page("configuration.md").partition("## Roles and context in one table")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    defaults = {name: row[2] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    settings = Settings()
    for part in ("limits", "context", "roles"):
        for name, value in getattr(settings, part).model_dump().items():
            words = (
                "none"
                if value is None
                else ", ".join(value)
                if isinstance(value, tuple)
                else f"{value:g}"
                if isinstance(value, float)
                else str(value)
            )
            assert defaults.pop(f"{part}.{name}") == words
    assert [name for name in Role.model_fields if name not in {*defaults, "badge", "color"}] == []


def test_every_state_and_kind_is_named() -> None:
    text = page("concepts.md") + page("job-directory.md")
    assert [status for status in Status if status.startswith("HALTED_") is False and status not in text] == []
    assert [kind for kind in Kind if f"`{kind}`" not in text] == []


def test_the_page_about_what_leaves_names_everyone_who_gets_something() -> None:
    text = page("what-leaves.md")
    wanted = [*SHIPPED_PROVIDERS, *PROGRAMS]
    wanted += [
        name
        for name, field in Notify.model_fields.items()
        if field.annotation == Notify.model_fields["done"].annotation
    ]
    assert {"openai", "claude", "queue_empty"} <= set(wanted)
    assert [name for name in wanted if f"`{name}`" not in text] == []


def test_only_known_modules_can_connect_to_an_address() -> None:
    """Those that the page about what leaves describes: clients of models, the page, and tests of a connection."""
    connects = re.compile(
        r"^\s*(?:import|from) (?:httpx|socket|socketserver|http\.\w+|urllib\.request|ssl|asyncio)\b", re.M
    )
    found = {
        str(path.relative_to(ROOT / "logist"))
        for path in (ROOT / "logist").rglob("*.py")
        if connects.search(path.read_text("utf-8"))
    }
    folders = ("agents/clients/", "agents/gate/", "agents/sandbox/", "web/")
    assert sorted(name for name in found if not name.startswith(folders)) == [
        "agents/courier/fork_server.py",  # a pair of sockets between two processes
        "agents/remote/dask_cluster.py",
        "agents/remote/worker.py",  # the name of its machine
        "jobs/archive/span_sender.py",  # only for `logist otel` with a receiver
        "mcp_server/http.py",  # only listens, on 127.0.0.1
    ]


def test_every_exit_code_is_explained() -> None:
    text = page("exit-codes.md")

    def codes(error: type[LogistError]) -> set[int]:
        return {error.exit_code}.union(*(codes(child) for child in error.__subclasses__()))

    assert [code for code in sorted(codes(LogistError)) if f"| {code} |" not in text] == []


def tour() -> list[tuple[str, list[str]]]:
    """The commands of the README's tour, each with the lines it shows."""
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split("## Five minutes, no key")[1].split("\n## ")[0]
    found: list[tuple[str, list[str]]] = []
    for line in (line[4:] for line in section.splitlines() if line.startswith("    ")):
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found[-1][0].count("'") % 2:
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return found


def test_the_tour_of_the_readme_is_what_happens(cli: support.RunLogist, tmp_path: Path) -> None:
    place = tmp_path / "tour"
    place.mkdir()
    code, ran = 0, 0
    for command, expected in tour():
        words = shlex.split(command)
        if words[0] == "logist":
            done = cli(*words[1:], cwd=place)
            code, ran = done.code, ran + 1
            shown = (done.out + done.err).replace(str(place), "/home/ada/tour").splitlines()
            if expected:
                assert shown == expected, command
        elif words[0] == "echo":
            assert expected == [str(code)]
    assert ran > 8


NAMED_FUNCTION = re.compile(r"`([a-z_/]+\.py): ([A-Za-z_]+)`")
NAMED_FILE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|toml|md))[:`]")


def find_source_file(name: str) -> Path | None:
    """A file that a page names from the root, from the package, or by its end where that is clear."""
    for base in (ROOT, ROOT / "logist"):
        if (base / name).is_file():
            return base / name
    ending = [
        path for path in (ROOT / "logist").rglob(name.rpartition("/")[2]) if str(path).endswith(f"/{name}")
    ]
    return next(iter([*ending, *(ROOT / "tests").rglob(name)]), None)


def test_every_picture_is_on_a_page() -> None:
    words = "\n".join(path.read_text("utf-8") for path in PAGES)
    pictures = [
        f"{folder}/{path.name}"
        for folder in ("pictures", "terminals")
        for path in (ROOT / "docs" / folder).iterdir()
    ]
    assert [name for name in pictures if f"{name})" not in words] == []


@pytest.mark.parametrize("name", ["architecture.md", "contributing.md", "concepts.md"])
def test_the_files_and_functions_that_a_page_for_maintainers_names_exist(name: str) -> None:
    text = page(name)
    files = set(NAMED_FILE.findall(text))
    assert files
    assert sorted(each for each in files if find_source_file(each) is None) == []
    missing = []
    for file, function in NAMED_FUNCTION.findall(text):
        source = find_source_file(file)
        if source is None or not re.search(
            rf"^(?:async )?(?:def|class) {function}\b|^\s+def {function}\b|^{function}\b",
            source.read_text("utf-8"),
            re.M,
        ):
            missing.append(f"{file}: {function}")
    assert missing == []


def test_the_map_names_every_package_and_folder() -> None:
    text = page("architecture.md")
    folders = [path.parent for path in (ROOT / "logist").glob("*/*/__init__.py")]
    assert [str(each.relative_to(ROOT)) for each in folders if f"{each.name}/" not in text] == []
