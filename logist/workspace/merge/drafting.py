"""Creates the commits of a merge in a scratch repository that uses the objects of both sides and changes neither."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from logist.errors import Refused, StorageError
from logist.quick_dataclass import dataclass
from logist.quick_tuple import NamedTuple
from logist.workspace.checkpoint import objects
from logist.workspace.checkpoint.objects import FILE_MODE, LINK_MODE, PROGRAM_MODE, TreeEntry
from logist.workspace.files import file_names
from logist.workspace.git import Git, quote_alternate
from logist.workspace.merge.selecting import Selected
from logist.workspace.merge.target import Person, Target

SCRATCH = "logist-publishing"
"""A directory in the job's repository; leftovers of a killed command are deleted."""

ATTRIBUTES = "* !filter !ident !working-tree-encoding\n"
"""Files in a workspace have the same content as in git, so only line endings are converted for the repository."""

RULES = (b".gitignore", b".gitattributes")

MOST_PATCH = 1_000_000
"""Maximum bytes of a patch."""


class Words(NamedTuple):
    """The message of a commit: its first line, and the job."""

    subject: str
    job: str

    def build_text(self, before: str = "") -> str:
        subject = " ".join(f"{before}{self.subject}".split()) or self.job
        return f"{subject}\n\n{build_job_trailer(self.job)}\n"


def build_job_trailer(job: str) -> str:
    """Return the line by which the commits of a job are recognized."""
    return f"Logist-Job: {job}"


class FileChange(NamedTuple):
    """A file of the merge; line counts are None for binary files."""

    path: str
    added: int | None
    deleted: int | None


@dataclass(frozen=True)
class Scratch:
    """The repository in which commits are created."""

    git: Git
    tree: Path
    """The work tree of the scratch repository."""


@contextmanager
def open_scratch(
    job: Git, target: Target, author: Person, seconds: int, *, beside: bool = True
) -> Iterator[Scratch]:
    """Create a scratch repository; it is removed at the end of the block. `seconds`: the time of its commits,
    since 1970.

    `beside`: create it in the job's repository, whose lock the caller holds; otherwise as a temporary file.
    """
    folder = job.git_dir / SCRATCH if beside else Path(tempfile.mkdtemp(prefix="logist-")).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    tree = folder / "tree"
    tree.mkdir(mode=0o700, parents=True)
    when = f"@{seconds} +0000"
    own = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", author.name), ("EMAIL", author.email), ("DATE", when))
    }
    git = Git(folder / "repository", job.path, variables=tuple(own.items()))
    try:
        _init_repository(git, job, target)
        yield Scratch(git, tree)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _init_repository(git: Git, job: Git, target: Target) -> None:
    git.git_dir.mkdir(mode=0o700)
    tip = objects.read_tip(job) or ""
    git.run(
        "init",
        "--quiet",
        "--bare",
        "--template=",
        f"--object-format={'sha256' if len(tip) == 64 else 'sha1'}",
    )
    info = git.git_dir / "objects" / "info"
    info.mkdir(exist_ok=True)
    borrowed = (target.common / "objects", job.git_dir / "objects")
    (info / "alternates").write_bytes(b"".join(quote_alternate(path) for path in borrowed))
    (git.git_dir / "info").mkdir(exist_ok=True)
    (git.git_dir / "info" / "attributes").write_text(ATTRIBUTES, "ascii")
    for name in ("shallow", "info/exclude"):
        if (target.common / name).is_file():
            shutil.copyfile(target.common / name, git.git_dir / name)


def list_line_end_options(target: Target) -> list[str]:
    """Return the user's settings for line endings, as arguments for git."""
    kept = [name for name in ("core.autocrlf", "core.eol") if target.settings.get(name)]
    return [part for name in kept for part in ("-c", f"{name}={target.settings[name]}")]


def write_job_tree(
    made: Scratch, job: Git, target: Target, base: str | None, selected: Selected, final: str
) -> str:
    """Write the tree of the job's commit: that of `base` with the selected
    changes, without git-ignored files.
    """
    git = made.git
    inside: list[str | Path] = [
        f"--work-tree={made.tree}",
        *list_line_end_options(target),
        "-c",
        "core.fsync=none",
    ]
    if base is not None:
        git.run("read-tree", base)
    rules = _write_rules_and_names(made, job, selected, final)
    excludes = target.settings.get("core.excludesfile", "")
    own = ["-c", f"core.excludesFile={excludes}"] if os.path.isabs(excludes) else []
    ignored = git.run(*inside, *own, "ls-files", "--others", "--ignored", "--exclude-standard", "-z")
    for path in filter(None, ignored.split(b"\0")):
        if selected.changes.pop(path, None) is not None:
            selected.left_out[path] = "git-ignored"
    present = {path: entry for path, entry in selected.changes.items() if entry is not None}
    _write_contents(made, job, {path: entry for path, entry in present.items() if path not in rules})
    gone = [path for path in selected.changes if path not in present]
    git.run_with_input(_join_paths(gone), *inside, "update-index", "-z", "--force-remove", "--stdin")
    git.run_with_input(_join_paths(present), *inside, "update-index", "-z", "--add", "--replace", "--stdin")
    return git.run("write-tree").decode("ascii").strip()


def _write_rules_and_names(made: Scratch, job: Git, selected: Selected, final: str) -> set[bytes]:
    """Write the files with rules for git, and empty files for all other paths; return the paths of the
    former.
    """
    by_path = {
        file_names.from_stored(stored): entry for stored, entry in objects.read_tree(job, final).items()
    }
    rules = {
        path: entry
        for path, entry in by_path.items()
        if path.rpartition(b"/")[2] in RULES and entry.mode != LINK_MODE and path not in selected.left_out
    }
    _write_contents(made, job, rules)
    for path, entry in selected.changes.items():
        if entry is not None and path not in rules:
            _write_entry(_locate_in_tree(made, path), TreeEntry(FILE_MODE, ""), iter(()))
    return set(rules)


def _write_contents(made: Scratch, job: Git, wanted: dict[bytes, TreeEntry]) -> None:
    """Write files with their content."""
    paths = sorted(wanted)
    with objects.open_contents(job, [wanted[path].id for path in paths]) as each:
        for path, pieces in zip(paths, each, strict=True):
            _write_entry(_locate_in_tree(made, path), wanted[path], pieces)


def _locate_in_tree(made: Scratch, path: bytes) -> bytes:
    return os.path.join(os.fsencode(made.tree), path)


def _write_entry(place: bytes, entry: TreeEntry, pieces: Iterator[bytes]) -> None:
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(place)
    if entry.mode == LINK_MODE:
        os.symlink(b"".join(pieces), place)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o700 if entry.mode == PROGRAM_MODE else 0o600
    with open(os.open(place, flags, mode), "wb") as file:
        file.writelines(pieces)


def _join_paths(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def create_commit(git: Git, tree: str, parents: Sequence[str], text: str) -> str:
    """Create a commit; the same input gives the same commit id."""
    above = [part for parent in parents for part in ("-p", parent)]
    return (
        git.run_with_input(text.encode("utf-8", "backslashreplace"), "commit-tree", tree, *above)
        .decode()
        .strip()
    )


def read_tree_id(git: Git, commit: str) -> str:
    return git.run("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}").decode("ascii").strip()


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    return git.run_for_status("merge-base", "--is-ancestor", older, newer)[0] == 0


def count_commits(git: Git, older: str, newer: str) -> int:
    """Count the commits that `newer` has in its history, and `older` has not."""
    return int(git.run("rev-list", "--count", f"{older}..{newer}"))


def find_first_parent(git: Git, commit: str) -> str | None:
    """Return the first parent of a commit; None if there is none."""
    status, output, _ = git.run_for_status("rev-parse", "--verify", "--quiet", f"{commit}^1")
    return output.decode("ascii").strip() if status == 0 else None


def find_introducing_commit(git: Git, commit: str, head: str) -> str:
    """Return the first commit on the branch at `head` that has `commit` in
    its history: a merge, or `commit` itself.
    """
    line = git.run("rev-list", "--first-parent", head, f"^{commit}").split()
    after = set(git.run("rev-list", "--ancestry-path", head, f"^{commit}").split())
    having = [each.decode("ascii") for each in line if each in after]
    return having[-1] if having and find_first_parent(git, having[-1]) != commit else commit


def is_same(git: Git, one: str, other: str) -> bool:
    """Whether two commits have the same tree, history and message, whatever their author and time."""

    def read_content(commit: str) -> tuple[list[bytes], bytes]:
        head, _, message = git.run("cat-file", "commit", commit).partition(b"\n\n")
        return [line for line in head.split(b"\n") if line.startswith((b"tree ", b"parent "))], message

    return read_content(one) == read_content(other)


def merge_trees(git: Git, ours: str, theirs: str, target: Target) -> tuple[str, list[str]]:
    """Return the merged tree and the conflicting files. Raises Refused if
    the two have no common history.
    """
    options = ["--write-tree", "--name-only", "--no-messages", "-z"]
    status, out, error_text = git.run_for_status("merge-tree", *options, ours, theirs)
    if "unrelated histories" in error_text:
        fix = "check out the branch that the job started from and run the command again, or use --branch and merge by hand"
        message = "the checked-out branch has no common history with the commit that the job started from"
        raise Refused(message, where=str(target.place), fix=fix)
    if status not in (0, 1) or not out:
        reason = error_text or f"exit status {status}"
        fix = "install git 2.38 or newer"
        raise StorageError(f"git merge-tree failed: {reason}", where=str(git.git_dir), fix=fix)
    tree, *conflicting = out.rstrip(b"\0").split(b"\0")
    conflicts = [file_names.to_display(path) for path in dict.fromkeys(conflicting) if path]
    return tree.decode("ascii"), conflicts if status else []


def list_file_changes(git: Git, before: str, after: str) -> list[FileChange]:
    """Return the files that differ, by path."""
    fields = git.run("diff-tree", "-r", "-z", "--numstat", "--no-renames", before, after, "--").split(b"\0")
    file_list = []
    for line in filter(None, fields):
        added, deleted, path = line.split(b"\t", 2)
        counts = (None, None) if added == b"-" else (int(added), int(deleted))
        file_list.append(FileChange(file_names.to_display(path), *counts))
    return file_list


def read_patch(git: Git, before: str, after: str) -> tuple[str, bool]:
    """Return the differences as a patch, and whether it is complete."""
    options = ("-p", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    with git.open_stream("diff-tree", *options, before, after, "--") as process:
        assert process.stdout is not None
        output = process.stdout.read(MOST_PATCH + 1)
        while process.stdout.read(1 << 20):
            pass
    return output[:MOST_PATCH].decode("utf-8", "backslashreplace"), len(output) <= MOST_PATCH


def borrow_objects(target: Target, made: Scratch) -> Git:
    """Return git on the target with access to the new commits, which are not in the target yet."""
    return target.git.borrow_objects(made.git.git_dir / "objects")


def write_empty_tree(git: Git) -> str:
    """Write an empty tree; return its name."""
    return git.run_with_input(b"", "hash-object", "-t", "tree", "-w", "--stdin").decode("ascii").strip()
