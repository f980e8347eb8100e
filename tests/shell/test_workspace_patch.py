"""Patches for prompts: what is in them, what is only named, and what is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from logist.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "workspace", tmp_path / "git")
    made.populate(None)
    return made


def checkpoint(workspace: Workspace, **files: bytes | None) -> str:
    for name, data in files.items():
        path = workspace.root / name
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
    return workspace.checkpoint("c").commit


def test_changes_as_a_patch(workspace: Workspace) -> None:
    before = checkpoint(workspace, a=b"1\n2\n3\n", gone=b"bye\n", same=b"same\n")
    (workspace.root / "empty").mkdir()
    after = checkpoint(workspace, a=b"1\ntwo\n3\n", gone=None, new=b"no newline")
    text = workspace.patch(before, after, 10_000)
    assert "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3" in text
    assert "deleted file mode 100644\n--- a/gone\n+++ /dev/null" in text
    assert "+no newline\n\\ No newline at end of file" in text
    assert "same" not in text
    assert ".logist~" not in text
    assert workspace.patch(after, after, 10_000) == ""
    assert workspace.patch(before, after, 0) == ""


@pytest.mark.parametrize("data", [bytes(range(256)), b"x\n" * 1_000_000], ids=["binary", "huge"])
def test_what_is_binary_or_huge_is_only_named(workspace: Workspace, data: bytes) -> None:
    before = checkpoint(workspace)
    text = workspace.patch(before, checkpoint(workspace, big=data), 10_000)
    assert "Binary files /dev/null and b/big differ" in text
    assert len(text) < 200


def test_one_long_file_does_not_hide_the_others(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    after = checkpoint(workspace, a=b"long\n" * 5000, b=b"short\n", c=b"long\n" * 5000, d=b"end\n")
    text = workspace.patch(before, after, 6000)
    assert len(text) < 6200
    assert text.count("more lines of this file]") == 2
    assert "+short" in text
    assert "+end" in text


def test_many_files_are_cut_with_a_word(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    after = checkpoint(workspace, **{f"f{number:03}": b"line\n" * 20 for number in range(300)})
    text = workspace.patch(before, after, 3000)
    assert len(text) < 3100
    assert text.endswith("files: the rest of the patch is cut]")
    assert text.index("a/f000") < text.index("a/f001")


def test_what_is_left_out_is_named_only(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    after = checkpoint(workspace, secret=b"s3\n", open=b"o\n")
    text = workspace.patch(before, after, 3000, lambda path: path == "secret")
    assert "s3" not in text
    assert "+o" in text
    assert text.endswith("\n[changed, and not shown: secret]")
    many = {f"f{number:02}": b"x\n" for number in range(60)}
    assert workspace.patch(after, checkpoint(workspace, **many), 3000, lambda path: True).endswith(
        "f49 and 10 more]"
    )


def test_a_file_can_not_pass_for_another(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    (workspace.root / "sub").mkdir()
    (workspace.root / "sub" / ".git").write_bytes(b"\xff\ndiff --git a/x b/x\n")
    (workspace.root / "li\nne").write_text("x\n")
    text = workspace.patch(before, checkpoint(workspace), 3000)
    assert "+++ b/sub/.git\n@@ -0,0 +1,2 @@\n+\\xff\n+diff --git a/x b/x" in text
    assert '"b/li\\nne"' in text
