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
    return workspace.create_checkpoint("c").commit


def test_changes_as_a_patch(workspace: Workspace) -> None:
    before = checkpoint(workspace, a=b"1\n2\n3\n", gone=b"bye\n", same=b"same\n")
    (workspace.root / "empty").mkdir()
    after = checkpoint(workspace, a=b"1\ntwo\n3\n", gone=None, new=b"no newline")
    text = workspace.build_patch(before, after, 10_000).text
    assert "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3" in text
    assert "deleted file mode 100644\n--- a/gone\n+++ /dev/null" in text
    assert "+no newline\n\\ No newline at end of file" in text
    assert "same" not in text
    assert ".logist~" not in text
    assert workspace.build_patch(after, after, 10_000).text == ""
    assert workspace.build_patch(before, after, 0).text == ""


@pytest.mark.parametrize("data", [bytes(range(256)), b"x\n" * 1_000_000], ids=["binary", "huge"])
def test_what_is_binary_or_huge_is_only_named(workspace: Workspace, data: bytes) -> None:
    before = checkpoint(workspace)
    text = workspace.build_patch(before, checkpoint(workspace, big=data), 10_000).text
    assert "Binary files /dev/null and b/big differ" in text
    assert len(text) < 200


def test_one_long_file_does_not_hide_the_others(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    after = checkpoint(workspace, a=b"long\n" * 5000, b=b"short\n", c=b"long\n" * 5000, d=b"end\n")
    text = workspace.build_patch(before, after, 6000).text
    assert len(text) < 6200
    assert text.count("more lines of this file]") == 2
    assert "+short" in text
    assert "+end" in text


def test_many_files_are_cut_with_a_word(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    after = checkpoint(workspace, **{f"f{number:03}": b"line\n" * 20 for number in range(300)})
    text = workspace.build_patch(before, after, 3000).text
    assert len(text) < 3100
    assert text.endswith("files: the rest of the patch is cut]")
    assert text.index("a/f000") < text.index("a/f001")


def test_what_is_left_out_is_named_only(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    after = checkpoint(workspace, secret=b"s3\n", open=b"o\n")
    text = workspace.build_patch(before, after, 3000, lambda path: path == "secret").text
    assert "s3" not in text
    assert "+o" in text
    assert text.endswith("\n[changed, but not shown: secret]")
    many = {f"f{number:02}": b"x\n" for number in range(60)}
    assert workspace.build_patch(after, checkpoint(workspace, **many), 3000, lambda path: True).text.endswith(
        "f49 and 10 more]"
    )


def test_a_file_can_not_pass_for_another(workspace: Workspace) -> None:
    before = checkpoint(workspace)
    (workspace.root / "sub").mkdir()
    (workspace.root / "sub" / ".git").write_bytes(b"\xff\ndiff --git a/x b/x\n")
    (workspace.root / "li\nne").write_text("x\n")
    text = workspace.build_patch(before, checkpoint(workspace), 3000).text
    assert "+++ b/sub/.git\n@@ -0,0 +1,2 @@\n+\\xff\n+diff --git a/x b/x" in text
    assert '"b/li\\nne"' in text


@pytest.mark.parametrize(
    "data",
    [
        b"EVIL = 1\n#\0\n",
        "EVIL = 1\n".encode("utf-16"),
        "EVIL = 1  # Grüße\0\n".encode(),
        b"EVIL = 1\n# " + b"word " * 50 + b"\xff\xfe\0\n",
    ],
)
@pytest.mark.parametrize("name", ["new.py", "old.py", "a b.py"])
def test_a_byte_does_not_hide_a_text(workspace: Workspace, name: str, data: bytes) -> None:
    before = checkpoint(workspace, **{"old.py": b"GOOD = 1\n", "other": b"1\n"})
    patch = workspace.build_patch(before, checkpoint(workspace, **{name: data, "other": b"2\n"}), 10_000)
    assert "EVIL" in patch.text.replace("\\0", "")
    assert "Binary" not in patch.text
    assert "\0" not in patch.text
    assert patch.whole


def test_attributes_do_not_hide_a_text(workspace: Workspace) -> None:
    before = checkpoint(workspace, **{".gitattributes": b"*.py -diff\n*.sh binary\n"})
    after = checkpoint(workspace, **{"a.py": b"EVIL = 1\n", "b.sh": b"rm -rf x\n"})
    text = workspace.build_patch(before, after, 10_000).text
    assert "+EVIL" in text
    assert "+rm -rf x" in text


def test_what_was_there_comes_first_and_the_shorter_before_the_longer(workspace: Workspace) -> None:
    before = checkpoint(workspace, **{"z.py": b"A = 1\n", "y.py": b"B = 1\n" * 90, "x.py": b"C = 1\n"})
    junk = {f"a{number:03}": b"1\n" for number in range(300)}
    changed = {"z.py": b"A = 2\n", "y.py": None, "x.py": b"C = 2\nD\n", "long.py": b"E\n" * 40}
    text = workspace.build_patch(before, checkpoint(workspace, **junk, **changed), 6000).text
    places = [text.index(f" b/{name}\n") for name in ("z.py", "x.py", "y.py", "a000", "a001")]
    assert places == sorted(places)
    assert "long.py" not in text


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        ({"a": b"1\n"}, True),
        ({"a": bytes(range(256))}, True),
        ({"a": b"x\n" * 1_000_000}, False),
        ({"a": b"long\n" * 5000}, False),
        ({f"f{number}": b"1\n" for number in range(300)}, False),
    ],
)
def test_whether_that_is_all(workspace: Workspace, files: dict[str, bytes], whole: bool) -> None:
    before = checkpoint(workspace)
    assert workspace.build_patch(before, checkpoint(workspace, **files), 6000).whole is whole
