"""Searches the commits of a person's repository: `git bisect` in a temporary repository that borrows its objects.

The person's own repository is only read. The temporary one is bare and has neither hooks nor settings of it, so
nothing is checked out, and no hook or filter can run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from logist.errors import StorageError, UsageError
from logist.quick_dataclass import dataclass
from logist.workspace.git import Git, quote_alternate
from logist.workspace.source import find_objects, find_repository

Verdict: TypeAlias = Literal["good", "bad", "skip"]
MOST_FILES = 5_000
MOST_BYTES = 50_000_000
"""How many files, and bytes, are read of one commit."""
_LEFT_OUT = frozenset({b"jobs", b"runs"})
"""Directories below the project's own that hold records of jobs, not rules."""
_DIRECTORIES = (b".logist", b".coven")
_REGULAR = (b"100644", b"100755")


class UntestableCommit(Exception):
    """The files of a commit can't be read, so nothing is known about it."""


@dataclass(frozen=True)
class Commit:
    """A commit, as a person is told about it."""

    id: str
    subject: str
    author: str
    date: str


@dataclass(frozen=True)
class SearchResult:
    """The end of a search: one commit, or several between which only untestable ones decide."""

    candidates: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class CommitSearch:
    """A temporary repository with all commits of the person's."""

    git: Git
    prefix: bytes
    """Where the project is in the repository: empty, or a path that ends with a slash."""
    is_shallow: bool

    def resolve_commit(self, name: str) -> str:
        """Return the full id of a commit. Raises UsageError."""
        status, output, _ = self.git.run_for_status(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
        if status:
            fix = self.describe_shallow() or "use 'git log' to find it"
            raise UsageError(f"unknown commit: {name}", fix=fix)
        return output.decode("ascii").strip()

    def describe_shallow(self) -> str:
        """What to do about a clone without its older commits; empty for a complete one."""
        return (
            "this clone is shallow: 'git fetch --unshallow' gets the older commits" if self.is_shallow else ""
        )

    def find_commit_before(self, tip: str, timestamp: str) -> str | None:
        """Return the newest ancestor that was committed before that time."""
        found = self.git.run("rev-list", "-1", f"--before={timestamp}", tip).decode("ascii").strip()
        return found or None

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether the later commit contains the earlier one."""
        return self.git.run_for_status("merge-base", "--is-ancestor", earlier, later)[0] == 0

    def describe_commit(self, commit: str) -> Commit:
        """Read who made the commit, when, and its first line."""
        output = self.git.run("show", "-s", "--no-show-signature", "--format=%s%x00%an%x00%aI", commit)
        subject, author, date = output.decode("utf-8", "replace").rstrip("\n").split("\0")
        return Commit(commit, subject, author, date)

    def list_changed_files(self, commit: str) -> list[str]:
        """Return the rules that the commit changed, compared with its first parent, as paths in the project."""
        output = self.git.run(
            *("diff-tree", "--root", "--no-commit-id", "--no-renames", "-r", "-z", "--name-only"),
            *("-m", "--first-parent", "--no-ext-diff", "--no-textconv", commit),
        )
        inside = [
            name.removeprefix(self.prefix) for name in output.split(b"\0") if name.startswith(self.prefix)
        ]
        return sorted(os.fsdecode(name) for name in inside if _is_rule(name))

    def write_files(self, commit: str, root: Path) -> None:
        """Write the project's own files of a commit into an empty directory, without filters or links.

        Raises UntestableCommit if they are too many, or if the repository doesn't have their content.
        """
        (root / ".logist").mkdir(parents=True)
        places = [os.fsdecode(self.prefix + name) for name in _DIRECTORIES]
        rows = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *places).split(b"\0")
        files = [(fields[2], name) for fields, name in _read_rows(rows, self.prefix)]
        if len(files) > MOST_FILES:
            raise UntestableCommit(f"more than {MOST_FILES:,} files in .logist")
        content, is_complete = self.git.read_beginning(
            MOST_BYTES, "cat-file", "--batch", data=b"".join(blob + b"\n" for blob, _ in files)
        )
        if not is_complete:
            raise UntestableCommit(f"more than {MOST_BYTES:,} bytes in .logist")
        position = 0
        for _, name in files:
            header, _, _ = content[position : position + 200].partition(b"\n")
            if not header.split()[-1:] or not header.split()[-1].isdigit():
                raise UntestableCommit(f"this clone does not have the content of {os.fsdecode(name)}")
            start = position + len(header) + 1
            position = start + int(header.split()[-1]) + 1
            _write_file(root, name, content[start : position - 1])

    def search(self, good: str, bad: str, judge: Callable[[str], Verdict]) -> SearchResult:
        """Run `git bisect` between the two commits; `judge` says what a commit is."""
        skipped: list[str] = []
        status, output, error = self.git.run_for_status("bisect", "start", "--no-checkout", bad, good)
        try:
            while status == 0 and b" is the first bad commit" not in output:
                commit = self.git.run("rev-parse", "--verify", "BISECT_HEAD").decode("ascii").strip()
                verdict = judge(commit)
                if verdict == "skip":
                    skipped.append(commit)
                status, output, error = self.git.run_for_status("bisect", verdict, commit)
            if status not in (0, 2):  # 2: only skipped commits are left
                raise StorageError(f"git bisect failed: {error}")
            first_bad = self.git.run("rev-parse", "--verify", "refs/bisect/bad").decode("ascii").strip()
            if status == 0:
                return SearchResult((first_bad,), tuple(skipped))
            return SearchResult(self._list_candidates(first_bad), tuple(skipped))
        finally:
            self.git.run_for_status("bisect", "reset")

    def _list_candidates(self, first_bad: str) -> tuple[str, ...]:
        """The commits of which each can be the one: the skipped ones that a good commit doesn't contain."""
        refs = (
            self.git.run("for-each-ref", "--format=%(refname)", "refs/bisect/good-*").decode("ascii").split()
        )
        output = self.git.run("rev-list", "--reverse", "--topo-order", first_bad, "--not", *refs)
        return tuple(output.decode("ascii").split())


@contextmanager
def open_commit_search(project: Path) -> Iterator[CommitSearch]:
    """Make the temporary repository for the project in that directory, and remove it at the end.

    Raises UsageError if the project is not in a git repository.
    """
    repository = find_repository(project)
    if repository is None:
        fix = "only changes that were committed to git can be found"
        raise UsageError("the project is not in a git repository", where=str(project), fix=fix)
    own = Git(repository / ".git")
    prefix = os.fsencode(os.path.relpath(project.resolve(), repository.resolve())).rstrip(b"/") + b"/"
    with TemporaryDirectory(prefix="logist-bisect-") as folder:
        directory = Path(folder) / "repository"
        object_format = own.run("rev-parse", "--show-object-format").decode("ascii").strip()
        git = Git(directory, flushing=False)
        git.run("init", "--bare", "--quiet", "--template=", f"--object-format={object_format}", directory)
        (directory / "objects/info").mkdir(exist_ok=True)
        (directory / "objects/info/alternates").write_bytes(quote_alternate(find_objects(repository)))
        shallow = Path(
            os.fsdecode(own.run("rev-parse", "--path-format=absolute", "--git-path", "shallow")[:-1])
        )
        is_shallow = shallow.is_file()
        if is_shallow:
            (directory / "shallow").write_bytes(shallow.read_bytes())
        _copy_names(own, git)
        yield CommitSearch(git, b"" if prefix == b"./" else prefix, is_shallow)


def _copy_names(own: Git, git: Git) -> None:
    """Give the temporary repository the branches and tags of the person's, so that their names can be used."""
    rows = own.run(
        "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/remotes"
    )
    created = [row.split(b" ", 1) for row in rows.splitlines()]
    commands = b"".join(b"create %s %s\n" % (name, target) for target, name in created)
    git.run_with_input(commands, "update-ref", "--stdin")
    status, head, _ = own.run_for_status("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if status:
        raise UsageError("the repository has no commit yet", where=str(own.git_dir.parent))
    git.run("update-ref", "--no-deref", "HEAD", head.decode("ascii").strip())


def _read_rows(rows: list[bytes], prefix: bytes) -> Iterator[tuple[list[bytes], bytes]]:
    for row in rows:
        head, _, name = row.partition(b"\t")
        fields = head.split()
        inside = name.removeprefix(prefix)
        if len(fields) == 3 and fields[0] in _REGULAR and _is_rule(inside):
            yield fields, inside


def _is_rule(name: bytes) -> bool:
    """Whether a path of the project is one of the files that replay reads."""
    parts = name.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):  # a commit can contain any names
        return False
    return parts[0] in _DIRECTORIES and len(parts) > 1 and parts[1] not in _LEFT_OUT


def _write_file(root: Path, name: bytes, content: bytes) -> None:
    path = root / os.fsdecode(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UntestableCommit(f"can't write {os.fsdecode(name)}: {error.strerror}") from None
