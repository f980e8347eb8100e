"""Patches as git writes them: every line is read with its number, whatever files and names agents think of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logist.core.text.patches import FilePatch, iter_file_patches
from tests import support

Files = dict[bytes, bytes]

LINES = st.sampled_from(
    [
        *(b"a", b"b", b"", b" x", b"+", b"-y", b"\r", b"word\r", b"\xff\xfe", "ä\u202eö".encode()),
        *(
            b"diff --git a/x b/x",
            b"@@ -1 +1 @@",
            b"--- a/x",
            b"+++ b/x",
            b"rename from q",
            b"Binary files differ",
        ),
        *(b"\\ No newline at end of file", b"z" * 9000),
    ]
)
CONTENTS = st.one_of(
    st.builds(
        lambda lines, end: b"\n".join(lines) + end,
        st.lists(LINES, max_size=30),
        st.sampled_from([b"\n", b""]),
    ),
    st.sampled_from([b"", b"\0binary", b"\0other", b"\n"]),
)
NAMES = st.sampled_from(
    [
        *(
            b"x",
            b"a b",
            b"a/x b/x",
            b"tab\t",
            b"line\nbreak",
            b'quo"te',
            b"back\\slash",
            b"\x01\x7f",
            b"end ",
        ),
        *("n\u00e4me".encode(), b"\xff\xfe", b'"', b"d/e/f", b"dev/null", b" b/c", b"\\101"),
    ]
)
TREES = st.dictionaries(NAMES, CONTENTS, max_size=5).map(
    lambda tree: {
        name: data for name, data in tree.items() if not any(is_below(other, name) for other in tree)
    }
)


def is_below(name: bytes, folder: bytes) -> bool:
    return name.startswith(folder + b"/")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patches")
    support.git(path, "init", "--quiet", "--bare", ".")
    return path


def make_patch(repository: Path, before: Files, after: Files, *options: str) -> bytes:
    """Return what git writes for the change from one set of files to another."""
    commits = b"".join(
        b"commit refs/heads/%s\ncommitter a <a@b> 0 +0000\ndata 0\ndeleteall\n" % name
        + b"".join(
            b"M 100644 inline %s\ndata %d\n%s\n" % (quote(path), len(data), data)
            for path, data in tree.items()
        )
        for name, tree in ((b"old", before), (b"new", after))
    )
    run(repository, "fast-import", "--quiet", "--force", data=commits)
    return run(repository, "diff-tree", "-r", "-M", "-p", *options, "old", "new")


def run(repository: Path, *arguments: str, data: bytes = b"") -> bytes:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=repository, input=data, capture_output=True, check=True).stdout


def quote(path: bytes) -> bytes:
    return b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'


def apply(patch: FilePatch, content: bytes) -> bytes:
    """Return the file after its patch, and check every number on the way."""
    old, new = content.split(b"\n"), []
    if content.endswith(b"\n"):
        old.pop()
    has_line_break, taken = content.endswith(b"\n"), 0
    for hunk in patch.read_hunks(10**6):
        first = next((line.old for line in hunk.lines if line.old), None)
        if first is not None:
            # Without context, the lines before may be the last ones: those after them were removed.
            has_line_break = has_line_break or first - 1 > taken
            new += old[taken : first - 1]
            taken = first - 1
        elif hunk.old_start:
            new += old[taken : hunk.old_start]
            taken = hunk.old_start
        for line in hunk.lines:
            if line.old is not None:
                assert line.old == taken + 1
                assert line.text == old[taken]
                taken += 1
            if line.new is not None:
                new.append(line.text)
                assert line.new == len(new)
                has_line_break = line.has_line_break
    if old[taken:] and content:
        new += old[taken:]
        has_line_break = content.endswith(b"\n")
    return b"\n".join(new) + (b"\n" if has_line_break and new else b"")


@settings(
    max_examples=support.examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=TREES, after=TREES, context=st.sampled_from(["-U3", "-U0"]))
def test_a_patch_of_git_leads_from_the_old_files_to_the_new(
    repository: Path, before: Files, after: Files, context: str
) -> None:
    patches = list(iter_file_patches(make_patch(repository, before, after, context)))
    rebuilt = dict(before)
    for patch in patches:
        content = before.get(patch.old_path or patch.path, b"")
        if patch.old_path:
            rebuilt.pop(patch.old_path)
        if patch.is_binary:
            assert b"\0" in content + after.get(patch.path, b"")
            rebuilt[patch.path] = after.get(patch.path, b"")
        else:
            rebuilt[patch.path] = apply(patch, content)
            assert patch.count_lines() == sum(len(hunk.lines) for hunk in patch.read_hunks(10**6))
        if patch.path not in after:
            assert rebuilt.pop(patch.path) == b""
    assert rebuilt == after


def test_without_context_the_last_line_that_is_left_has_its_line_break(repository: Path) -> None:
    before, after = {b"x": b"a\nb"}, {b"x": b"a\n"}
    [patch] = iter_file_patches(make_patch(repository, before, after, "-U0"))
    assert apply(patch, before[b"x"]) == after[b"x"]


def test_a_rename_has_both_names_and_only_the_lines_that_differ(repository: Path) -> None:
    text = b"".join(b"%d\n" % number for number in range(40))
    before, after = {b"old name": text}, {b'new "name"': text.replace(b"20\n", b"twenty\n")}
    [patch] = iter_file_patches(make_patch(repository, before, after))
    assert (patch.old_path, patch.path) == (b"old name", b'new "name"')
    changed = [line for hunk in patch.read_hunks(100) for line in hunk.lines if line.sign != " "]
    assert [(line.sign, line.old, line.new, line.text) for line in changed] == [
        ("-", 21, None, b"20"),
        ("+", None, 21, b"twenty"),
    ]


def test_a_new_mode_alone_has_no_lines() -> None:
    [patch] = iter_file_patches(b"diff --git a/run me b/run me\nold mode 100644\nnew mode 100755\n")
    assert (patch.path, patch.count_lines(), patch.read_hunks(9)) == (b"run me", 0, [])


def test_no_more_lines_are_read_than_wanted(repository: Path) -> None:
    data = make_patch(repository, {}, {b"x": b"a\nb\nc\nd"})
    [patch] = iter_file_patches(data)
    assert [[line.text for line in hunk.lines] for hunk in patch.read_hunks(2)] == [[b"a", b"b"]]
    assert patch.read_hunks(0) == []
    assert patch.count_lines() == 4
    assert [line.has_line_break for line in patch.read_hunks(4)[0].lines] == [True, True, True, False]


def test_a_patch_that_was_cut_anywhere_is_read_up_to_there(repository: Path) -> None:
    whole = make_patch(repository, {b"x": b"a\n"}, {b"x": b"b\n", b"y": b"c\n"})
    for length in range(len(whole)):
        for patch in iter_file_patches(whole[:length]):
            patch.read_hunks(10)
