"""What a prompt is told of a workspace: the tree, the files that matter, and nothing from elsewhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logist.core.prompt.prompt import Relevant
from logist.core.prompt.search_report import SearchReport
from logist.core.relevance import Task
from logist.core.relevance.words import find_keywords
from logist.core.secrets import redact as secrets
from logist.workspace import Workspace
from logist.workspace.context import FileExplanation, FileSurvey, choosing, searching, showing, walking
from logist.workspace.context.descending import Descent
from logist.workspace.context.tracked import Tracked
from logist.workspace.files import safe_open
from logist.workspace.git import Git
from tests.shell.context_shop import shop
from tests.support import git

MARK = "rosebud"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "job" / "workspace"
    made.mkdir(parents=True)
    return made


def workspace(root: Path) -> Workspace:
    return Workspace(root, root.parent / "git")


def survey(root: Path, excluded: Sequence[str] = (), first: str | None = None) -> FileSurvey:
    return workspace(root).survey_files(excluded, first)


def excerpts(root: Path, excluded: Sequence[str] = (), redact: Callable[[str], str] = str) -> str:
    return workspace(root).describe_key_files(survey(root, excluded), redact)


def tree(root: Path, excluded: Sequence[str] = ()) -> list[str]:
    return workspace(root).describe_structure(survey(root, excluded)).splitlines()


def relevant(
    root: Path, task: Task | str, excluded: Sequence[str] = (), first: str | None = None, **more: Any
) -> list[Relevant]:
    asked = task if isinstance(task, Task) else Task(task)
    bounds = {"limit": 10, "max_file_bytes": 65_536, "max_total_bytes": 262_144, "redact": str}
    found = more.pop("found", None) or survey(root, excluded, first)
    return workspace(root).find_relevant(found, asked, **{**bounds, **more})


def paths(root: Path, task: Task | str, **more: Any) -> list[str]:
    return [one.file.path for one in relevant(root, task, **more)]


def write(root: Path, *files: str, text: str = MARK) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


TASKS = [
    (
        "Charge customers only once when the gateway times out",
        "A payment is retried after GatewayTimeout although the first attempt may have succeeded.",
        ["shop/payments/charge.py", "shop/payments/gateway.py"],
    ),
    (
        "Logging in with an upper-case email fails",
        "Users who type their email with capitals see 'wrong password'.",
        ["web/src/components/LoginForm.tsx", "shop/api/users.py", "shop/auth.py"],
    ),
    (
        "Dark mode: remember the theme",
        "",
        ["web/src/components/DarkModeToggle.tsx", "web/src/styles/theme.css"],
    ),
    ("Rate limiting never rejects", "`RateLimiter.allow` always returns True.", ["shop/ratelimit.py"]),
    ("Add the date to the CSV export of orders", "", ["shop/api/orders.py", "shop/export.py"]),
    (
        "The queue of the worker spins",
        "It polls and takes a whole CPU.",
        ["worker/queue.go", "worker/main.go"],
    ),
    ("Authentication: expire sessions after an hour", "", ["shop/auth.py"]),
    ("Mail invoices as HTML", "", ["worker/invoice_mailer.go"]),
    ("Crash", 'File "/home/ada/shop/shop/config.py", line 3, in <module>', ["shop/config.py"]),
    (
        "Split shop.payments.gateway",
        "See docs/payments.md.",
        ["shop/payments/gateway.py", "docs/payments.md"],
    ),
    ("Update the Makefile so that vet runs in CI", "", ["Makefile", ".github/workflows/ci.yml"]),
]


@pytest.mark.parametrize(("title", "prompt", "first"), TASKS, ids=[row[0] for row in TASKS])
def test_the_files_that_a_person_would_open_come_first(
    root: Path, title: str, prompt: str, first: list[str]
) -> None:
    shop(root)
    found = paths(root, Task(title, prompt))
    assert found[0] in first
    assert set(first) <= set(found[: len(first) + 1])
    assert "package-lock.json" not in found[:5]
    assert found == paths(root, Task(title, prompt))


def test_each_file_has_its_reason_and_its_text(root: Path) -> None:
    shop(root)
    found = {
        one.file.path: one
        for one in relevant(root, Task("Charge once", "See shop/app.py; the gateway times out."))
    }
    assert found["shop/app.py"].reason == "named in the task"
    assert (
        found["shop/payments/charge.py"].reason
        == "name contains charge; defines charge; contains gateway 5 times, charge, time_out 2 times;"
        " tests/test_charge.py is named after it"
    )
    assert found["shop/app.py"].file.text == (root / "shop/app.py").read_text()


def test_the_tree_of_a_repository(root: Path) -> None:
    shop(root)
    write(root, "build/x", "a.log", "node_modules/x", "docs/__pycache__/x", "secret/y", "dist/z")
    shown = tree(root, ["dist", "secret"])
    assert shown[:9] == [
        "Makefile",
        "README.md",
        "package.json",
        "pyproject.toml",
        ".github/ (1 file)",
        "  workflows/ (1 file)",
        "docs/ (2 files)",
        "  architecture.md",
        "  payments.md",
    ]
    assert "worker/ (4 files)" in shown
    assert not [
        line
        for line in shown
        for name in ("build", "node_", "pycache", "secret", "dist", ".log")
        if name in line
    ]


@pytest.mark.parametrize(
    ("ignore", "hidden", "kept"),
    [
        ({".gitignore": "*.gen\n!keep.gen\n"}, ["a.gen", "sub/b.gen"], ["keep.gen", "c.txt"]),
        ({"sub/.gitignore": "/only\n"}, ["sub/only"], ["only", "sub/deep/only"]),
        ({".gitignore": "x\n", "sub/.gitignore": "!x\n"}, ["x"], ["sub/x"]),
        ({".gitignore": "sub/\n", "sub/.gitignore": "!*\n"}, ["sub/a"], ["a"]),
        ({".gitignore": "a\0b\n\xff\n"}, [], ["a"]),
    ],
)
def test_gitignore_files_count_wherever_they_are(
    root: Path, ignore: dict[str, str], hidden: list[str], kept: list[str]
) -> None:
    write(root, *hidden, *kept)
    for name, text in ignore.items():
        write(root, name, text=text)
    found = survey(root).files
    assert not set(hidden) & set(found)
    assert set(kept) <= set(found)


@pytest.fixture
def forced(root: Path, tmp_path: Path) -> str:
    """A job whose source tracks files that its `.gitignore` matches, and has others that it ignores; its start."""
    source = tmp_path / "source"
    write(source, ".gitignore", text="lib/\n*.gen\n/deep/\n")
    write(source, "lib/charge.py", "lib/sub/refund.py", "a.gen", "b.gen.gen", "deep/a/b/kept.txt", "shop.py")
    git(source, "init", "--quiet")
    git(source, "add", "--all", "--force", ".")
    git(source, "commit", "--quiet", "--message", "All")
    return workspace(root).populate(source)


def test_a_tracked_file_is_known_after_a_question_for_the_beginning_of_its_name(
    root: Path, forced: str
) -> None:
    tracked = Tracked(workspace(root).git, forced)
    assert not tracked.has_path("b.gen", directory=False)
    assert tracked.has_path("b.gen.gen", directory=False)
    assert tracked.has_path("lib", directory=True)
    assert tracked.has_path("lib/sub", directory=True)
    assert not tracked.has_path("lib/out", directory=True)


def test_what_the_source_tracks_is_not_ignored(root: Path, forced: str) -> None:
    write(
        root,
        "lib/made.py",
        "lib/sub/made.py",
        "lib/out/made.py",
        "b.gen",
        "deep/a/made.txt",
        "deep/.gitignore",
    )
    write(root, "lib/.gitignore", text="!*\n")
    later = workspace(root).create_checkpoint("Holds what is ignored, too").commit
    assert later != forced
    found = survey(root, first=forced)
    assert set(found.files) == {
        ".gitignore", "a.gen", "b.gen.gen", "shop.py", "lib/charge.py", "lib/sub/refund.py", "deep/a/b/kept.txt"
    }  # fmt: skip
    assert {"lib/ (2 files)", "  charge.py"} <= set(workspace(root).describe_structure(found).splitlines())
    (charge, made) = relevant(root, "lib/charge.py lib/made.py", first=forced)
    assert (charge.file.path, charge.file.text) == ("lib/charge.py", MARK)
    assert (made.file.path, made.file.note) == ("lib/made.py", "git-ignored: not shown")
    assert set(survey(root, ["lib"], forced).files) == {
        ".gitignore",
        "a.gen",
        "b.gen.gen",
        "shop.py",
        "deep/a/b/kept.txt",
    }


def test_a_part_of_a_job_tracks_what_it_began_with(root: Path, forced: str, tmp_path: Path) -> None:
    write(root, "lib/made.py")
    commit = workspace(root).create_checkpoint("Made").commit
    part = tmp_path / "part" / "workspace"
    assert workspace(part).populate_from_parent(root.parent / "git", commit) == commit
    write(part, "lib/later.py")
    workspace(part).create_checkpoint("Later")
    assert {path for path in survey(part, first=commit).files if path.startswith("lib/")} == {
        "lib/charge.py", "lib/made.py", "lib/sub/refund.py"
    }  # fmt: skip


def test_without_a_source_nothing_is_tracked(root: Path) -> None:
    first = workspace(root).populate(None)
    write(root, ".gitignore", text="lib/\n")
    write(root, "lib/charge.py", "shop.py")
    workspace(root).create_checkpoint("All")
    assert set(survey(root, first=first).files) == {".gitignore", "shop.py"}


def test_git_is_asked_little_and_only_where_something_is_ignored(
    root: Path, forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def run(git: Git, *arguments: object) -> bytes:
        asked.append(arguments[-1])
        return real(git, *arguments)  # type: ignore[arg-type]

    real = Git.run
    monkeypatch.setattr(Git, "run", run)
    survey(root, first=forced)
    *paths, last = asked
    assert len(paths) == 2
    assert (forced in paths, last) == (False, forced)  # then all tracked files are listed
    (root / ".gitignore").write_text("nothing-here\n")
    survey(root, first=forced)
    assert len(asked) == 3


def test_a_pattern_for_all_of_a_directory_hides_it_at_every_depth(root: Path) -> None:
    shown = ["lib/bin/kept", "bin/a/shown", "lib/tmp/deep/kept"]
    write(root, "bin/made", "bin/b/made", "lib/tmp/made", *shown)
    write(root, ".gitignore", text="bin/*\n!bin/a\n")
    write(root, "lib/.gitignore", text="/tmp/*\n!/tmp/deep/\n")
    assert set(survey(root).files) == {".gitignore", "lib/.gitignore", *shown}


def test_key_files_are_shown_as_excerpts(root: Path, tmp_path: Path) -> None:
    shop(root)
    assert excerpts(root).split("\n\n")[0] == "Excerpts of key files:"
    assert "README.md:\n```\n# Shop\n\nOrders, payments and invoices." in excerpts(root)
    assert "Makefile:\n```\ntest: pytest\n```" in excerpts(root)
    assert "Makefile" not in excerpts(root, ["Makefile"])
    write(root, ".gitignore", text="README.md\n")
    assert "README.md" not in excerpts(root)
    outside = tmp_path / "outside"
    outside.write_text("outside\n")
    (root / "AGENTS.md").symlink_to(outside)
    (root / "CLAUDE.md").hardlink_to(outside)
    (root / "Dockerfile").write_bytes(b"FROM \0")
    os.mkfifo(root / "Gemfile")
    assert "outside" not in excerpts(root)
    assert "Dockerfile:" not in excerpts(root)


def test_secrets_are_removed_before_key_files_are_shortened(root: Path) -> None:
    body = "\n".join(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{MARK}{number:04}AAAAAAAA" for number in range(40))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    write(root, "AGENTS.md", text=f"Sign with\n{key}\n" + "x" * 70_000)
    redact = partial(secrets.redact, secrets=(), keep_lines=True)
    shown = excerpts(root, redact=lambda text: redact(text)[0])
    assert "Sign with\n[redacted]\n" in shown
    assert "MIIE" not in shown
    assert len(shown) < 1_200


def test_what_is_ignored_secret_or_binary_is_named_only_when_the_task_does(root: Path) -> None:
    write(root, ".gitignore", text="private/\n.env\n")
    write(root, "private/rosebud.txt", ".env", "server.key", "rosebud.png", "dist/rosebud.txt", "ok.txt")
    assert paths(root, "About rosebud", excluded=["dist"]) == ["ok.txt"]
    named = relevant(
        root, "See private/rosebud.txt, .env, server.key, rosebud.png, dist/rosebud.txt", excluded=["dist"]
    )
    assert [(one.file.path, one.file.text, one.file.note) for one in named if one.file.text is None] == [
        ("server.key", None, "may contain secrets: not shown"),
        ("rosebud.png", None, "binary file"),
        ("private/rosebud.txt", None, "git-ignored: not shown"),
        (".env", None, "git-ignored: not shown"),
    ]


def test_past_commits_of_the_source_help_to_find_files(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, "a.py", "b.py", "c.py", "old.py", text="x\n")
    git(source, "init", "--quiet")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "--message", "Begin")
    for name, message in (
        ("c.py", "Another thing"),
        ("b.py", "Refunds of hidden-token"),
        ("old.py", "Refund"),
    ):
        write(source, name, text=f"{message}\n".replace("Refund", "y"))
        git(source, "commit", "--quiet", "--all", "--message", f"{message}\n\nBody about exports")
    git(source, "rm", "--quiet", "old.py")
    git(source, "commit", "--quiet", "--message", "Remove")
    git(source, "config", "log.showSignature", "true")
    first = workspace(root).populate(source)
    write(source, "a.py", text="z\n")
    git(source, "commit", "--quiet", "--all", "--message", "Refunds again")  # later than the job
    past: dict[str, Any] = {"source": str(source), "first": first}
    for task, bare in (("Refund twice", False), ("Refund twice", True)):
        if bare:
            git(tmp_path, "clone", "--quiet", "--bare", str(source), "bare.git")
            past["source"] = str(tmp_path / "bare.git")
        found = [
            (one.file.path, one.reason)
            for one in workspace(root).find_relevant(
                survey(root), Task(task), limit=9, max_file_bytes=99, max_total_bytes=99, redact=str, **past
            )
        ]
        assert found == [("b.py", "changed by past commits about refund")]
    assert paths(root, "Refund twice") == paths(root, "Exports", **past) == []


@pytest.mark.parametrize("commit", ["0" * 40, "--output=x", "HEAD"])
def test_a_missing_source_or_commit_is_no_error(root: Path, tmp_path: Path, commit: str) -> None:
    write(root, "small.txt")
    assert paths(root, MARK, source=str(tmp_path / "gone"), first=commit) == ["small.txt"]
    git(tmp_path, "init", "--quiet", "empty")
    assert paths(root, MARK, source=str(tmp_path / "empty"), first=commit) == ["small.txt"]


def test_the_title_tells_whether_tests_are_wanted(root: Path) -> None:
    (root / "tests").mkdir()
    (root / "a.py").write_text("parser")
    (root / "tests" / "b.py").write_text("parser parser")
    assert relevant(root, "The parser")[0].file.path == "a.py"
    assert relevant(root, "Tests of the parser")[0].file.path == "tests/b.py"


def test_of_many_files_with_the_name_in_the_task_the_most_relevant_are_listed(root: Path) -> None:
    for folder in "abcdef":
        (root / folder).mkdir()
        (root / folder / "index.py").write_text("parser" if folder == "f" else "")
    listed = [
        each.file.path
        for each in relevant(root, Task("The parser", "in index.py"))
        if each.reason == "named in the task"
    ]
    assert listed == ["f/index.py", "a/index.py", "b/index.py"]


def test_the_limits_hold(root: Path) -> None:
    write(root, *(f"rosebud{n}.txt" for n in range(9)), text="x" * 900)
    assert len(paths(root, "rosebud", limit=4)) == 4
    assert paths(root, "rosebud", limit=0) == []
    assert paths(root, "rosebud", known=["rosebud0.txt"], limit=1) == ["rosebud1.txt"]
    texts = [one.file.text for one in relevant(root, "rosebud", max_total_bytes=2_000)]
    assert sum(len(text or "") for text in texts) == 1_800
    (large,) = relevant(root, "rosebud", max_file_bytes=100, limit=1)
    assert (large.file.text, large.file.note) == (None, "too large: 900 bytes, the limit is 100")


def test_a_file_without_room_for_its_text_is_listed(root: Path) -> None:
    write(root, *(f"rosebud{n}.txt" for n in range(4)), text="x" * 900)
    write(root, "rosebud2.txt", text="x" * 300)
    found = relevant(root, "rosebud", max_total_bytes=1_300)
    assert {one.file.path: len(one.file.text or "") for one in found} == {
        "rosebud0.txt": 900, "rosebud1.txt": 0, "rosebud2.txt": 300, "rosebud3.txt": 0
    }  # fmt: skip
    assert {one.file.note for one in found if one.file.text is None} == {"text not shown: no room left"}
    assert all(one.reason == "name contains rosebud" for one in found)


def test_a_large_file_is_shown_as_parts(root: Path) -> None:
    filler = "".join(f"def f{number}():\n    return {number}\n\n" for number in range(3_000))
    write(root, "large.py", text=f"{filler}def {MARK}():\n    return None\n\n{filler}")
    write(root, "small.py", text=f"{MARK}\n")
    large, small = relevant(root, MARK)
    assert (large.file.path, large.reason) == ("large.py", f"defines {MARK}; contains {MARK}")
    assert large.file.text is not None
    assert f" 9001  def {MARK}():\n 9002      return None\n" in large.file.text
    assert "... 22 f7, 67 f22, " in large.file.text
    assert len(large.file.text) < 9_000
    assert large.file.note == "parts of a file of 18,003 lines, with line numbers; read the file for the rest"
    assert (small.file.text, small.file.note) == (f"{MARK}\n", None)


def test_a_file_that_does_not_fit_into_what_is_left_is_shown_as_parts(root: Path) -> None:
    write(root, "a.txt", "b.txt", text=f"{MARK}\n" + "words of a file\n" * 100)
    first, second = relevant(root, MARK, max_total_bytes=2_500)
    assert first.file.text == (root / "a.txt").read_text()
    assert (second.file.text or "").startswith(f"  1  {MARK}\n  2  words of a file\n")
    assert len(first.file.text) + len(second.file.text or "") <= 2_500
    first, second = relevant(root, MARK, max_total_bytes=650)
    assert (first.file.text or "").startswith(f"  1  {MARK}\n")
    assert second.file.note == choosing.NO_ROOM


def test_the_best_file_does_not_take_all_the_room(root: Path) -> None:
    write(root, f"{MARK}.py", text="".join(f"def {MARK}{n}():\n    return {n}\n" for n in range(1_000)))
    write(root, *(f"{n}.py" for n in range(9)), text=f"{MARK}\n")
    best, *others = relevant(root, MARK, max_total_bytes=9_000)
    assert {each.file.text for each in others} == {f"{MARK}\n"}
    room = 9_000 - 9 * len(f"{MARK}\n")
    assert room - 600 < len(best.file.text or "") <= room


def test_a_file_takes_half_of_the_room_that_is_left(root: Path) -> None:
    for name in "abcd":
        text = "".join(f"def {name}{n}():\n    return {MARK}\n" for n in range(2_500))
        write(root, f"{name}.py", text=text)
    best, *others = (len(each.file.text or "") for each in relevant(root, MARK, max_total_bytes=80_000))
    assert others == pytest.approx([20_000, 10_000, 5_000], abs=1_500)
    assert best > 40_000  # it also gets what is left at the end


def test_files_that_are_not_text_take_no_place_in_the_list(root: Path) -> None:
    for number in range(20):
        (root / f"{MARK}{number}.txt").write_bytes(b"\xe9")
    write(root, "a.txt", "b.txt")
    assert paths(root, MARK, limit=2) == ["a.txt", "b.txt"]


def test_room_that_is_left_completes_files(root: Path) -> None:
    write(root, f"{MARK}.py", text=f"{MARK}\n" + "x\n" * 1_000)
    (only,) = relevant(root, MARK, max_total_bytes=2_100)
    assert (only.file.text, only.file.note) == ((root / f"{MARK}.py").read_text(), None)


def test_a_traceback_shows_its_line_of_a_large_file(root: Path) -> None:
    write(root, "shop/pay.py", text="".join(f"x{number} = {number}\n" for number in range(1, 20_000)))
    (large,) = relevant(root, Task("Crash", 'File "/home/ada/shop/pay.py", line 12345, in <module>'))
    assert "12345  x12345 = 12345\n" in (large.file.text or "")
    assert len(large.file.text or "") < 400


def test_secrets_of_several_lines_are_not_in_parts(root: Path) -> None:
    body = "\n".join(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{MARK}{number:04}AAAAAAAA" for number in range(40))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    write(root, "large.py", text=f"KEY = '''{key}'''\n" + "x = 1\n" * 20_000 + f"{MARK} = 2\n")
    redact = partial(secrets.redact, secrets=(), keep_lines=True)
    (large,) = relevant(root, MARK, redact=lambda text: redact(text)[0])
    assert f"20043  {MARK} = 2" in (large.file.text or "")
    assert "MIIE" not in (large.file.text or "")


def test_large_files_that_are_not_text_are_left_out(root: Path) -> None:
    (root / "latin.txt").write_bytes(MARK.encode() + b" \xe9\n" * 30_000)
    write(root, "small.txt")
    assert paths(root, MARK) == ["small.txt"]
    named, *_ = relevant(root, f"{MARK} in latin.txt")
    assert named.file.note == "not text: 90007 bytes"


def test_of_a_file_of_many_megabytes_the_beginning_is_searched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "MAX_FILE_BYTES", 100_000)
    write(root, "huge.txt", text="é = 1\n" * 10_000 + f"{MARK}\n" + "é = 2\n" * 10_000)
    write(root, "line.txt", text="é" * 100_000)
    huge, line = relevant(root, f"{MARK}: see huge.txt and line.txt")
    assert f"10001  {MARK}\n" in (huge.file.text or "")
    assert huge.file.note == (
        "parts of the first 11,554 lines of a file of 140,008 bytes, with line numbers; read the file for the rest"
    )
    assert (line.file.text or "").startswith("1  ééé")
    assert (line.file.text or "").endswith("(33,615 characters)")


def test_a_secret_at_the_end_of_the_beginning_of_a_file_is_not_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first half is not recognized as a secret."""
    monkeypatch.setattr(showing, "MAX_FILE_BYTES", 100_000)
    secret = "correct-horse-battery-staple"
    before = f"let a = 1; {MARK} = '"
    write(root, "bundle.js", text=f"{before:>99990}{secret}'; {'x' * 20_000}")
    redact = partial(secrets.redact, secrets=[secret], keep_lines=True)
    shown = relevant(root, MARK, redact=lambda text: redact(text)[0])
    assert [each.file.path for each in shown] == ["bundle.js"]
    assert "let a" not in (shown[0].file.text or "")
    assert secret[:9] not in (shown[0].file.text or "")


def test_the_end_of_the_beginning_of_a_key_file_is_not_shown(root: Path) -> None:
    secret = "two-lines-of-a\nlong-passphrase"
    write(root, "Dockerfile", text=f"FROM scratch\n{'#' * 65_500}\n{secret}\n")
    redact = partial(secrets.redact, secrets=[secret], keep_lines=True)
    assert "two-lines" not in excerpts(root, redact=lambda text: redact(text)[0])


def test_huge_files_and_binaries_are_not_searched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_FILE_BYTES", 100_000)
    write(root, "huge.txt", text=MARK + "\n" + "x" * 100_000)
    (root / "noise.txt").write_bytes(b"\0" + MARK.encode() * 50)
    (root / "late.txt").write_bytes(MARK.encode() + b"\n" + b"x" * 9_000 + b"\0")
    write(root, "small.txt")
    assert paths(root, MARK) == ["small.txt"]
    files = survey(root).searchable
    with safe_open.open_root(root) as top:
        chosen = searching.choose_files(files, lambda number: 1.0)
        texts = searching.count_words(top, files, chosen, find_keywords(Task(MARK)))
    assert sorted(files.paths[number] for number in chosen) == ["late.txt", "noise.txt", "small.txt"]
    having = [files.paths[number] for number in chosen if texts.count_in(number)]
    assert sorted(having) == ["late.txt", "small.txt"]


def test_of_too_many_bytes_the_likelier_files_are_searched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MAX_BYTES", 200)
    write(root, *(f"data{n}.lock" for n in range(50)), text="x" * 50)
    write(root, "z/code.py")
    assert paths(root, MARK) == ["z/code.py"]


def test_nothing_outside_is_ever_shown(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/rosebud.txt", "outside/.gitignore", text=MARK)
    outside = tmp_path / "outside"
    (root / "link-rosebud.txt").symlink_to(outside / "rosebud.txt")
    (root / "rosebud").symlink_to(outside)
    os.link(outside / "rosebud.txt", root / "hard-rosebud.txt")
    os.mkfifo(root / "pipe-rosebud.txt")
    (root / "loop-rosebud").symlink_to("loop-rosebud")
    (root / ".gitignore").symlink_to(outside / ".gitignore")
    with socket.socket(socket.AF_UNIX) as made, chdir(root):  # the name of a socket must be short
        made.bind("socket-rosebud")
    write(root, "module/.git", text="gitdir: ../../outside")
    write(root, "module/rosebud.txt", "nested/.git/config", "nested/rosebud.txt", ".git/rosebud.txt")
    write(root, "mine.txt")
    task = "rosebud: rosebud/rosebud.txt link-rosebud.txt hard-rosebud.txt pipe-rosebud.txt module/rosebud.txt .git/rosebud.txt"
    assert paths(root, task) == ["mine.txt"]
    shown = tree(root)
    assert {
        "module (another git repository)",
        "nested (another git repository)",
        "rosebud (a link)",
    } <= set(shown)
    assert not [line for line in shown if "/rosebud" in line or line.startswith("  ")]


def test_a_gitignore_that_is_a_pipe_or_too_large_holds_nobody(root: Path) -> None:
    write(root, "a/mine.txt", "b/mine.txt")
    os.mkfifo(root / "a" / ".gitignore")
    write(root, "b/.gitignore", text="mine.txt\n" * 20_000)
    assert sorted(survey(root).files) == ["a/mine.txt", "b/.gitignore", "b/mine.txt"]


def test_hostile_patterns_end_the_walk_and_show_nothing_more(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "MAX_EFFORT", 100_000_000)
    write(root, ".gitignore", text="\n".join(f"*{'a' * 90}{n}*b" for n in range(200)))
    write(root, *(f"{'a' * 240}{n}" for n in range(300)))
    found = survey(root)
    assert found.partial
    assert len(found.files) < 300
    assert "(incomplete: not all files were scanned)" in tree(root)


def test_many_files_deep_trees_and_odd_names(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "MAX_IN_ONE", 500)
    (root / "many").mkdir()
    for n in range(600):
        (root / "many" / f"f{n:05}").touch()
    deep = root.joinpath(*["d"] * 120)
    deep.mkdir(parents=True)
    write(root, "z/rosebud.txt", "a\nb/rosebud\n.txt")
    (root / "not-utf8-\udcff-rosebud.txt").write_text(MARK)
    found = survey(root)
    assert found.partial
    assert sum(path.startswith("many/") for path in found.files) == 500
    assert walking.TOO_DEEP in found.noted.values()
    assert "z/rosebud.txt" in found.files
    assert sorted(paths(root, MARK)) == ["a\nb/rosebud\n.txt", "z/rosebud.txt"]
    assert '"a\\nb"/ (1 file)' in tree(root)


def test_of_too_many_files_those_near_the_top_are_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "MAX_FILES", 30)
    write(root, *(f"a/b/c{n % 5}/f{n}" for n in range(50)), "z/rosebud.txt")
    found = survey(root)
    assert found.partial
    assert "z/rosebud.txt" in found.files


def test_locked_directories_and_files_are_passed_over(root: Path, ordinary_owner: None) -> None:
    write(root, "locked/rosebud.txt", "locked-rosebud.txt", "open.txt")
    (root / "locked").chmod(0)
    (root / "locked-rosebud.txt").chmod(0)
    try:
        assert tree(root)[-1] == "locked (unreadable)"
        found = survey(root)
        assert [one.file.path for one in relevant(root, MARK, found=found)] == ["open.txt"]
        unsearched = workspace(root).describe_unsearched(found)
        assert unsearched == "Not searched: 1 unreadable directory, 1 unreadable file."
    finally:
        (root / "locked").chmod(0o700)


def test_the_order_in_which_files_were_made_changes_nothing(tmp_path: Path) -> None:
    names = [f"d{n % 7}/rosebud{n}.py" for n in range(60)]
    told = []
    for place, order in (("one", names), ("two", names[::-1])):
        (tmp_path / place).mkdir()
        write(tmp_path / place, *order)
        told.append((tree(tmp_path / place), relevant(tmp_path / place, "rosebud")))
    assert told[0] == told[1]


def test_an_empty_workspace_has_nothing_to_tell(root: Path) -> None:
    assert tree(root) == []
    assert relevant(root, "rosebud app.py") == []


def test_what_is_above_two_directories_is_opened_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a/b/c/x", "a/b/d/x", "a/e/x", "f/x")
    opened: list[bytes] = []

    def open_directory(parent: int | None, name: bytes, **more: bool) -> int:
        opened.append(name)
        return real(parent, name, **more)

    real = safe_open.open_directory
    before = os.listdir("/proc/self/fd")
    with safe_open.open_root(root) as top, Descent(top) as way:
        monkeypatch.setattr(safe_open, "open_directory", open_directory)
        for path in ("a/b/c", "a/b/d", "a/e", "", "f"):
            assert os.path.samestat(os.fstat(way.open_path(path)), os.stat(root / path))
        with pytest.raises(FileNotFoundError):
            way.open_path("f/gone/x")
        assert os.path.samestat(os.fstat(way.open_path("a")), os.stat(root / "a"))
    assert opened == [b"a", b"b", b"c", b"d", b"e", b"f", b"gone", b"a"]
    assert os.listdir("/proc/self/fd") == before


def explain(root: Path, path: str, excluded: Sequence[str] = (), **more: Any) -> FileExplanation:
    report = SearchReport()
    relevant(root, Task("Parser", "See .env."), excluded, report=report, **more)
    return workspace(root).explain_file(report, path, excluded)


LIMITED = "rank 3: at most 2 are listed (context.relevant_files_limit)"
NOTHING_COUNTS = "no word of the task is in its name or text, and no past commit about it has changed it"


@pytest.mark.parametrize(
    ("path", "listed", "why"),
    [
        (".env", True, "named in the task"),
        ("parser.py", True, "name contains parser"),
        ("./parser.py", True, "name contains parser"),
        ("src/parser.py", False, LIMITED),
        ("other.py", False, NOTHING_COUNTS),
        ("uv.lock", False, "its score is below "),
        ("id_rsa", False, "may contain secrets, by its name: not searched"),
        ("parser.png", False, "binary, by its name: not searched"),
        ("zeros.py", False, "not text: 2 bytes"),
        ("large.py", False, "not searched: 3,000,000 bytes, at most 2,000,000 are read; no word in its name"),
        ("build/parser.py", False, "git-ignored"),
        ("private/parser.py", False, "excluded (context.excluded_paths)"),
        ("node_modules/parser.py", False, "in a cache (workspace.caches)"),
        ("link.py", False, "a link"),
        ("sub/parser.py", False, "sub is another git repository"),
        ("src", False, "a directory: name a file in it"),
        ("src/", False, "a directory: name a file in it"),
        (
            "known.py",
            False,
            "in the prompt anyway: a file of the job (files), or evidence of the last answer",
        ),
        ("gone.py", False, "not found in the workspace"),
        ("lib/parser.py", False, "not found in the workspace; did you mean parser.py or src/parser.py?"),
        ("../outside.py", False, "not found in the workspace"),
        ("", False, "not found in the workspace"),
    ],
)
def test_why_a_file_is_listed_or_not(root: Path, path: str, listed: bool, why: str) -> None:
    write(root, "parser.py", "src/parser.py", "private/parser.py", "node_modules/parser.py", text="parser")
    write(root, "build/parser.py", ".env", "id_rsa", "parser.png", "sub/parser.py", "known.py", text="parser")
    write(root, "uv.lock", text=f"parser {'x ' * 9_000}")
    write(root, *(f"{number}.txt" for number in range(20)), "other.py", text="other")
    write(root, ".gitignore", text="build/\n")
    write(root, "sub/.git/HEAD", text="")
    write(root, "large.py", text="parser " + "x" * 2_999_993)
    (root / "zeros.py").write_bytes(b"\0\0")
    (root / "link.py").symlink_to("parser.py")
    (root.parent / "outside.py").write_text("parser")
    explained = explain(root, path, ["private"], limit=2, known=["known.py"])
    assert explained.is_listed == listed
    assert explained.why.startswith(why) if why.endswith(" ") or listed else explained.why == why
    assert bool(explained.points) == bool(explained.score)


def test_a_low_rank_may_be_due_to_a_text_that_was_not_searched(root: Path) -> None:
    write(root, "parser.py", "lib/parser.py", text="parser")
    write(root, "src/parser.py", text="parser " + "x" * 2_999_993)
    assert explain(root, "src/parser.py", limit=2).why == (
        "rank 3: at most 2 are listed (context.relevant_files_limit); "
        "its text was not searched: 3,000,000 bytes, at most 2,000,000 are read"
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("parser.py", "not searched: unreadable: permission denied"),
        ("other.py", "not searched: unreadable: permission denied; no word in its name"),
    ],
)
def test_a_file_that_may_not_be_read(root: Path, ordinary_owner: None, path: str, why: str) -> None:
    write(root, "parser.py", "other.py", "lib/parser.py", text="parser")
    (root / path).chmod(0)
    assert explain(root, path).why == why


def test_a_file_that_the_search_had_no_room_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a.py", "b.py", text="parser")
    monkeypatch.setattr(searching, "MAX_BYTES", 10)
    assert (
        explain(root, "b.py").why
        == "not searched: likelier files fill the limit of all texts; no word in its name"
    )


def test_a_walk_that_stopped_may_not_have_seen_a_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a.py", "b/c.py", text="parser")
    monkeypatch.setattr(walking, "MAX_FILES", 1)
    assert "was read: it has too many files" in explain(root, "b/d.py").why
