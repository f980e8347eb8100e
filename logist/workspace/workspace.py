"""The workspace of a job: the directory in which agents work, and the repository of its checkpoints, which agents
can't access.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from logist.errors import StorageError
from logist.quick_dataclass import dataclass
from logist.regular_files import read_regular
from logist.workspace import context, listing, prepared, readable_history, source, throwaway
from logist.workspace.checkpoint import (
    baseline,
    changes,
    checkout,
    checkpoint,
    kept_packs,
    leftovers,
    objects,
    packs,
    patches,
    repository,
    restore,
    sharing,
    snapshot,
    undoing,
    written_files,
)
from logist.workspace.checkpoint.baseline import Baseline, ReadCheckpoint
from logist.workspace.checkpoint.scan import (
    CACHE,
    DIRECTORY_MODE,
    UNREADABLE,
    ScanRules,
    Unstored,
    WorkspaceScan,
    scan_workspace,
)
from logist.workspace.files import agent_files, clones, file_copy, file_names, safe_open
from logist.workspace.git import Git
from logist.workspace.merge import children as merge_children
from logist.workspace.reading import NAMED, NO_GIT, WorkspaceReader, require_directory

if TYPE_CHECKING:
    from logist.core.model import Change
    from logist.core.prompt.search_report import SearchReport
    from logist.core.prompt.shown_files import FileText, Relevant
    from logist.core.relevance import Task
    from logist.workspace.checkpoint.objects import Tree, TreeListing
    from logist.workspace.checkpoint.sharing import ObjectShares
    from logist.workspace.checkpoint.written_files import FileLayout
    from logist.workspace.listing import Listing

OFFENCES = 100
"""Maximum number of forbidden changes that are listed; the rest is only counted, but undone too."""


@dataclass(frozen=True)
class Checkpoint:
    """A commit, and what it does not hold, each as `path (reason)`; if many, the first ones and a count."""

    commit: str
    skipped: tuple[str, ...] = ()
    scan: WorkspaceScan | None = field(default=None, compare=False, repr=False)
    """The workspace as the checkpoint found it, so that it need not be scanned again."""

    @property
    def is_complete(self) -> bool:
        """Whether the scan could read every directory."""
        return self.scan is not None and all(thing.why != UNREADABLE for thing in self.scan.unstored.values())


@dataclass(frozen=True)
class Undone:
    """The changes that were undone."""

    changes: list[Change]
    """The forbidden changes, sorted by path; at most OFFENCES."""
    more: int
    """The number of other forbidden changes."""
    remaining: frozenset[str]
    """The paths that could not be undone."""
    kept: Checkpoint
    """The checkpoint after undoing."""


@dataclass
class KnownStart:
    """What new workspaces from the same checkpoint of the same job have in common: the first one finds it for all."""

    listing: TreeListing | None = None
    layout: FileLayout | None = None
    linked: ObjectShares | None = None
    """The objects of its own repository."""


class Workspace(WorkspaceReader):
    """The workspace of a job.

    The caller must hold the job's lock for methods that write: populate, create_checkpoint, restore.
    """

    source_has_no_commits = False
    start_packs: frozenset[str] = frozenset()
    """The names of the indexes of the packs that `populate` has made from a repository."""
    why_history_is_missing: str | None = None
    """Why the past commits of the repository are not in the `.git` that was just created, although they should be."""

    def populate(
        self, source_path: Path | None, kept: Path | None = None, history: readable_history.Extent = "none"
    ) -> str:
        """Create the repository, the workspace and its throw-away `.git`; return the first checkpoint.

        With a git repository (or a directory in one), its commit at HEAD is the first checkpoint; without a
        repository or a commit (`source_has_no_commits`), the workspace starts empty. The source is only read.
        `kept` is the folder of `kept_packs`, which the job may begin with. `history`: how much of the repository's past
        the agents of the job can read.
        Nothing is flushed: the caller that creates the job flushes everything once.
        """
        with self.without_flushing():
            origin = source.resolve_source(source_path) if source_path is not None else None
            head = source.read_head_commit(origin, self.git.path) if origin is not None else None
            self.source_has_no_commits = origin is not None and head is None
            repository.create_repository(self.git.git_dir, bare=True, long_names=len(head or "") == 64)
            if origin is None or head is None:
                return self._create_empty_workspace()
            known = kept_packs.find_kept(kept, head) if kept is not None else None
            place = source.find_objects(origin, self.git.path)
            if history != "none":
                readable = readable_history.ReadableHistory(history, place.absolute())
                readable_history.save_history(self.git.git_dir, readable)
            # What is cloned instead of unpacked doesn't verify the objects.
            leaving = known is None and not clones.can_clone(origin, self.git.git_dir, source.USUAL_FILES)
            if sharing.copy_commit(self.git, place, head, known, leaving=leaving):
                self._create_workspace(head, twin=origin)
            else:
                try:
                    self._create_workspace(head, twin=None, verifying=True)
                except StorageError:
                    sharing.verify_packs(self.git)  # if that is why, its error says so
                    raise
            self.start_packs = frozenset(index.name for index in packs.list_indexes(self.git.git_dir))
            return head

    def populate_from_parent(
        self, parent: Path, commit: str, twin: Path | None = None, known: KnownStart | None = None
    ) -> str:
        """Do the same from a checkpoint of another job, whose repository is `parent`. The objects are shared with it.

        `twin` is its workspace: unchanged files share their blocks with it, if the file system can do that. `known` is
        for jobs that start from the same checkpoint of the same job.
        """
        known = known or KnownStart()
        with self.without_flushing():
            repository.create_repository(self.git.git_dir, bare=True, long_names=len(commit) == 64)
            known.linked = known.linked or sharing.find_shares(self.git, parent, [commit])
            sharing.link_objects(self.git, parent, known.linked)
            sharing.copy_shallow(parent, self.git.git_dir)
            readable_history.inherit_history(replace(self.git, git_dir=parent), self.git.git_dir, commit)
            self._create_workspace(commit, twin=twin, known=known, lending=True)
            return commit

    def populate_from_original(
        self, original: Path, ends: Collection[str], at: str, twin: Path | None
    ) -> None:
        """Do the same from the checkpoint `at` of another job, with the ancestors of `at` and of all `ends`."""
        with self.without_flushing():
            repository.create_repository(self.git.git_dir, bare=True, long_names=len(at) == 64)
            sharing.link_objects(self.git, original, sharing.find_shares(self.git, original, {at, *ends}))
            sharing.copy_shallow(original, self.git.git_dir)
            readable_history.inherit_history(replace(self.git, git_dir=original), self.git.git_dir)
            kept = "".join(f"create {objects.KEPT}{end} {end}\n" for end in sorted({*ends} - {at}))
            if kept:
                self.git.run_with_input(kept.encode("ascii"), "update-ref", "--stdin")
            self._create_workspace(at, twin=twin, original=original, is_first=False)

    @contextmanager
    def without_flushing(self) -> Iterator[None]:
        """Flush nothing inside the block: the caller that creates the job flushes
        everything before the job gets its name.
        """
        flushing = self.git
        self.git = replace(flushing, flushing=False)
        try:
            with self._wrap_os_errors():
                yield
        finally:
            self.git = flushing

    def merge_children(
        self, ours: str, children: Sequence[merge_children.Theirs]
    ) -> merge_children.MergedChildren:
        """Merge the work of children into a checkpoint; the workspace itself
        does not change (see `restore`).
        """
        with self._wrap_os_errors():
            require_directory(self.git.git_dir, NO_GIT)
            return merge_children.merge_children(self.git, ours, children)

    def _create_empty_workspace(self) -> str:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        commit = checkpoint.write_empty_checkpoint(self.git, "Empty workspace")
        baseline.save_baseline(self.git, Baseline(commit))
        with source.make_agent_git(self.git, self.root, commit) as inner:
            sharing.copy_packs(self.git.git_dir, inner.git_dir)
        return commit

    def _create_workspace(
        self,
        commit: str,
        *,
        twin: Path | None,
        original: Path | None = None,
        is_first: bool = True,
        verifying: bool = False,
        known: KnownStart | None = None,
        lending: bool = False,
    ) -> None:
        """Make a checkpoint the last one of a new repository, and the new workspace equal to it.

        `original` is the repository of the job that this one is a fork of, if any. `is_first`: the job doesn't know the
        parents of the checkpoint. `verifying`: nothing has verified its objects yet. `lending`: the agent's repository
        gets the objects when a program needs them.
        """
        known = known or KnownStart()
        (content,) = objects.read_commits(self.git, commit)
        if is_first:
            sharing.cut_off_parents(self.git.git_dir, commit, content)
        checkpoint.update_branch(self.git, commit)
        unstored = objects.read_trailer(content)
        listing = known.listing = known.listing or objects.read_listing(self.git, commit)
        base = commit if is_first else objects.find_first(self.git)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if verifying and not listing.is_plain:
            sharing.verify_packs(self.git)
            verifying = False
        with source.make_agent_git(self.git, self.root, base) as inner:
            borrowing = inner.borrow_objects(self.git.git_dir / "objects")
            checkout.write_files(borrowing, self.root, commit, listing, twin, verifying=verifying)
            since = baseline.read_file_system_time(self.git)
            made = None
            if listing.is_plain:
                index = read_regular(inner.git_dir / "index")
                layout = known.layout = known.layout or written_files.find_layout(self.root, listing, index)
                made = written_files.build_baseline(self.root, commit, unstored, layout, index, since)
            if base != commit:
                # With -i: otherwise git compares the changed names with files of the current directory.
                checkout.write_index(borrowing, base, "read-tree", "-m", "-i", base)
            self.why_history_is_missing = source.copy_commits(
                self.git,
                inner,
                base,
                partial(source.lend_objects, self.git, inner, self.root)
                if lending
                else partial(self._copy_first_commit, inner, base, original),
            )
            baseline.save_baseline(self.git, made or self._complete_files(commit, listing.tree, unstored))

    def _copy_first_commit(self, inner: Git, base: str, original: Path | None) -> None:
        """Copy the commit that the agent's repository begins with; its objects are in `original`, or only in this one."""
        if original is None:
            sharing.copy_packs(self.git.git_dir, inner.git_dir)
        else:
            shares = sharing.find_shares(self.git, original, [base], "--no-walk")
            sharing.copy_objects(inner, original, shares)

    def _complete_files(self, commit: str, target: Tree, unstored: dict[bytes, Unstored]) -> Baseline:
        """Make a new workspace, into which git has written files, equal to a checkpoint; return the baseline."""
        with self._open_root() as top:
            scanned = scan_workspace(top, ScanRules(frozenset()))
            since = baseline.read_file_system_time(self.git)
            if checkout.has_written_all(scanned.table, target):
                return Baseline.from_scan(commit, scanned.table, target, unstored, since)
            # names that git can't store, empty directories, submodules
            now = checkout.recognize_files(scanned, target)
            written = restore.apply_tree(self.git, top, now, target)
            stamps = dict(zip(scanned.table.stored_paths, scanned.files.values(), strict=True))
            stamps = {path: stamps[path] for path in stamps.keys() & target} | written
        reliable = baseline.pack_reliable_stamps(stamps, baseline.read_file_system_time(self.git))
        return Baseline.from_tree(commit, target, unstored, reliable)

    def create_checkpoint(self, message: str) -> Checkpoint:
        """Store the workspace durably. If nothing changed, return the last
        checkpoint, without running git.
        """
        with self._wrap_os_errors(), self._open_root(unlocking=True) as top:
            last = baseline.load_baseline(self.git)
            scanned = self._scan(top, last.list_directories())
            if last.commit is not None and last.is_same_as(scanned):
                return Checkpoint(last.commit, _list_skipped(last.unstored), scanned)
            now = snapshot.take_snapshot(self.git, self._make_reading(top, last), scanned)
            if now.is_same_as(last) and last.commit is not None:
                commit = last.commit
            else:
                leftovers.remove_leftovers(self.git.git_dir)
                commit = checkpoint.write_checkpoint(self.git, self._make_reading(top, last), now, message)
            current = Baseline.from_table(commit, scanned.table, now.tree, now.unstored, now.stamps)
            if current != last:
                baseline.save_baseline(self.git, current)
            return Checkpoint(commit, _list_skipped(now.unstored), scanned)

    def restore(self, commit: str, *, clearing: bool = False) -> None:
        """Make the workspace equal to a checkpoint, which is then the last one.

        Raises Damaged if the checkpoint is missing. Its `.git`, caches, and files that no checkpoint holds are
        kept, unless they are in the way; with `clearing`, files that no checkpoint holds and that did not exist
        then are removed too. A missing `.git` is created again.
        """
        with self._wrap_os_errors():
            self._restore_commit(commit, clearing=clearing)
            self.why_history_is_missing = source.create_agent_git(self.git, self.root)

    def _restore_commit(self, commit: str, *, clearing: bool = False) -> None:
        require_directory(self.git.git_dir, NO_GIT)
        (unstored,) = objects.read_unstored(self.git, commit)
        target = objects.read_tree(self.git, commit)
        leftovers.remove_leftovers(self.git.git_dir)
        self.root.mkdir(mode=0o700, exist_ok=True)
        with self._open_root(unlocking=True) as top:
            last = baseline.load_baseline(self.git, ReadCheckpoint(commit, target, unstored))
            now = self._take_snapshot(top, last, last.list_directories() | baseline.find_directories(target))
            if clearing:
                self._remove_paths(top, undoing.list_new_unstored(unstored, now.unstored, target))
            written = restore.apply_tree(self.git, top, now, target)
            if last.commit not in (None, commit) and self._has_other_base(last.commit or "", commit):
                # It shows the changes since the base as the work of the agent. Removed before the last checkpoint
                # moves: if this is killed in between, a missing one is created again.
                throwaway.remove_git(self.git, top)
        kept = {path: stamp for path, stamp in now.stamps.items() if now.tree[path] == target.get(path)}
        stamps = kept | baseline.pack_reliable_stamps(written, baseline.read_file_system_time(self.git))
        self._move_tip(last.commit, commit)
        baseline.save_baseline(self.git, Baseline.from_tree(commit, target, unstored, stamps))

    def _has_other_base(self, one: str, other: str) -> bool:
        """Whether one of two checkpoints is based on a later commit of the source than the other."""
        return objects.find_base(self.git, one) != objects.find_base(self.git, other)

    def disarm_git(self, *, for_programs: bool = True) -> None:
        """Remove from the workspace's own `.git` what makes git run programs; create it again if it is
        invalid.

        `for_programs`: programs that can't read the repository of checkpoints will use it, so it must be complete.
        """
        with self._wrap_os_errors(), self._open_root(unlocking=True) as top:
            lending = source.borrows_objects(self.git, self.root, top)
            if lending and for_programs:
                source.give_objects(self.git, top)
                lending = False
            if not throwaway.disarm_git(self.git, top, lending=lending):
                self.why_history_is_missing = source.create_agent_git(self.git, self.root)

    def complete_git(self) -> None:
        """Copy the objects that the workspace's own `.git` borrows: a program in the sandbox can't read them there."""
        with self._wrap_os_errors(), self._open_root(unlocking=True) as top:
            if source.borrows_objects(self.git, self.root, top):
                source.give_objects(self.git, top)
                self.why_history_is_missing = source.create_agent_git(self.git, self.root)

    def hide_history(self) -> None:
        """Replace the workspace's own `.git` by one without past commits, for good."""
        with self._wrap_os_errors(), self._open_root(unlocking=True) as top:
            throwaway.remove_git(self.git, top)
            # Not earlier: if this is killed in between, the job still says that it has past commits.
            (self.git.git_dir / readable_history.RECORD).unlink()
            checkpoint.flush_directories(self.git)
            source.create_agent_git(self.git, self.root)

    def _move_tip(self, old: str | None, new: str) -> None:
        """Make `new` the last checkpoint; later checkpoints stay reachable."""
        if old == new:
            return
        if old is not None:
            self.git.run("update-ref", f"{objects.KEPT}{old}", old)
        self.git.run("update-ref", objects.BRANCH, new)
        checkpoint.flush_directories(self.git)

    def list_changes(
        self, before: str, after: str | None, limit: int = 1000, *, found: Checkpoint | None = None
    ) -> tuple[list[Change], int]:
        """Return what differs between two checkpoints, sorted by path, at most `limit`; and how many more
        there are.

        None means the current workspace, as if it were a checkpoint; nothing is written for that. With the checkpoint
        `found`, which was just made, it is not scanned again.
        """
        if after is None and found is not None and found.is_complete:
            after = found.commit
        with self._wrap_os_errors():
            require_directory(self.git.git_dir, NO_GIT)
            if after is not None:
                return changes.list_changes_between(self.git, before, after, limit)
            with self._open_root() as top:
                last = baseline.load_baseline(self.git)
                now = self._take_snapshot(top, last, last.list_directories(), writing=False)
            return changes.list_changes_since(self.git, before, now, limit)

    def compute_checkpoint_digest(self, commit: str) -> str:
        """Return the digest that `examine_content` returns for a workspace as in this checkpoint."""
        with self._wrap_os_errors():
            return changes.compute_checkpoint_digest(self.git, commit)

    def holds_any(self, commit: str, paths: Sequence[str]) -> bool:
        """Whether a checkpoint holds one of these files."""
        with self._wrap_os_errors():
            require_directory(self.git.git_dir, NO_GIT)
            stored = {file_names.to_stored(os.fsencode(path)) for path in paths}
            return not stored.isdisjoint(objects.read_tree(self.git, commit))

    def build_patch(
        self,
        before: str,
        after: str,
        max_bytes: int,
        left_out: Callable[[str], bool] = lambda path: False,
    ) -> patches.Patch:
        """Return the difference between two checkpoints as a patch of at most about `max_bytes`, and whether
        that is all.

        For a reviewer's prompt: `build_patch(state.start_checkpoint, state.checkpoint, ...)` has all changes of the
        job, including those of the doer's last answer, for both `step` and `preview` (nothing is written).
        Existing files come before new ones, shorter ones first. Binary files and files above 1 MB are only
        named; each other file gets a share, in complete lines; notes in brackets mark cuts. `left_out` returns
        True for a path that is only named. The patch is valid text, not redacted. Raises Damaged or
        StorageError.
        """
        with self._wrap_os_errors():
            require_directory(self.git.git_dir, NO_GIT)
            return patches.build_patch(self.git, before, after, max_bytes, left_out)

    def undo_changes(
        self, before: str, after: str, forbidden: Collection[str], matters: Callable[[Change], bool]
    ) -> Undone | None:
        """Undo all changes of a forbidden kind between two checkpoints; the workspace must be as in `after`.

        Creates a new checkpoint. `matters` selects those changes; returns None if there are none. Files that no
        checkpoint holds can only be removed, not restored. `restore(after)` reverts this.
        """
        with self._wrap_os_errors():
            forbidden_changes, more = changes.list_changes_between(self.git, before, after, OFFENCES, matters)
            if not forbidden_changes:
                return None
            old, new = objects.read_tree(self.git, before), objects.read_tree(self.git, after)
            lost, left = objects.read_unstored(self.git, before, after)
            with self._open_root(unlocking=True) as top:
                if "created" in forbidden:
                    self._remove_paths(top, undoing.list_new_unstored(lost, left, old))
                last = baseline.load_baseline(self.git)
                now = self._take_snapshot(top, last, last.list_directories() | baseline.find_directories(old))
                restore.apply_tree(self.git, top, now, undoing.build_target(old, new, forbidden))
        kept = self.create_checkpoint("without what the role may not do")
        still, _ = changes.list_changes_between(self.git, before, kept.commit, OFFENCES, matters)
        return Undone(forbidden_changes, more, frozenset(change.path for change in still), kept)

    def _remove_paths(self, top: int, paths: Iterable[bytes]) -> None:
        with safe_open.open_root(self.git.git_dir) as beside:
            for raw in paths:
                undoing.remove_path(top, beside, raw)

    def list_files(
        self,
        limit: int = 500,
        left_out: Callable[[str], bool] = lambda path: False,
        *,
        found: Checkpoint | None = None,
    ) -> Listing:
        """Return the regular files, without `.git` and caches, sorted; `left_out` returns True for a path to
        leave out.

        `found`: list what this checkpoint found, without another scan.
        """
        with self._wrap_os_errors():
            scanned = (
                found.scan if found and not self.prepared else None
            )  # a listing has what a setup created
            if scanned is None:
                scanned = listing.scan_for_listing(self.root, self.caches)
            return listing.list_files(scanned, self.caches, limit, left_out)

    def survey_files(self, excluded: Sequence[str], first: str | None) -> context.FileSurvey:
        """Return the files that a prompt may mention: no git-ignored, cached or `excluded` files, and none outside.

        `first` is the job's first checkpoint (`state.start_checkpoint`): files in it are not ignored.
        """
        with self._wrap_os_errors():
            return context.survey_workspace(
                self.root, self.caches, excluded, context.Tracked(self.git, first)
            )

    def describe_structure(self, survey: context.FileSurvey) -> str:
        """Return the directory tree two levels deep, as text."""
        return context.format_structure(survey)

    def describe_key_files(self, survey: context.FileSurvey, redact: Callable[[str], str]) -> str:
        """Return short excerpts of README, build files and the like, as text; "" if there are none.

        `redact` as in `find_relevant`.
        """
        with self._wrap_os_errors():
            return context.format_excerpts(self.root, survey, redact)

    def describe_unsearched(self, survey: context.FileSurvey) -> str:
        """Return a sentence that says which files `find_relevant` did not search or can't show; "" if there are none."""
        return context.describe_unsearched(survey)

    def find_relevant(
        self,
        survey: context.FileSurvey,
        task: Task,
        *,
        limit: int,
        max_file_bytes: int,
        max_total_bytes: int,
        redact: Callable[[str], str],
        known: Collection[str] = (),
        source: str | None = None,
        first: str | None = None,
        report: SearchReport | None = None,
    ) -> list[Relevant]:
        """Return at most `limit` files that are relevant for a task, the best first; without those in `known`, which
        the prompt contains anyway.

        `redact` removes secrets from a whole text and keeps its line breaks: of large files, only parts are shown.
        `source` is the user's repository and `first` the job's first checkpoint, if it is a commit of the source: the
        commits before it help to find the files. `report` is filled for `explain_file`.
        """
        past = context.SourceHistory(Path(source), first, self.git.path) if source and first else None
        bounds = context.ContextBounds(limit, max_file_bytes, max_total_bytes)
        with self._wrap_os_errors():
            texts = context.KnownTexts(
                context.WordIndex(self.words), baseline.find_unchanged_ids(self.git, survey.table)
            )
            return context.find_relevant_files(
                self.root, survey, task, bounds, redact, known, past, texts, report
            )

    def explain_file(
        self, report: SearchReport, path: str, excluded: Sequence[str]
    ) -> context.FileExplanation:
        """Explain why a file is among those of `find_relevant`, or why not."""
        with self._wrap_os_errors():
            caches = [*map(os.fsdecode, self.caches)]
            return context.explain_file(self.root, report, path, caches, excluded)

    def explain_withheld(self, paths: Collection[str], first: str | None) -> dict[str, str]:
        """Return the paths named by an agent whose text must not be in a prompt, each with the reason:
        git-ignored, or may contain secrets.

        `first` as in `survey_files`.
        """
        with self._wrap_os_errors():
            return (
                context.explain_withheld(self.root, paths, context.Tracked(self.git, first)) if paths else {}
            )

    def read_file(self, path: str, max_bytes: int) -> FileText:
        """Read a file for a prompt. Any problem with it becomes a note, never an error."""
        return agent_files.read_file(self.root, path, max_bytes)

    def read_for_task(self, path: str, max_bytes: int, task: Task, redact: Callable[[str], str]) -> FileText:
        """Read a file for a prompt like `read_file`, but return the parts that match the task if it is larger.

        `redact` as in `find_relevant`.
        """
        return context.PromptReader(task, redact).read_file(self.root, path, max_bytes)

    def copy_file(self, path: str, target: Path) -> None:
        """Copy a regular file of the workspace to `target`, durably; an existing target is replaced.

        The copy has the mode 0600; missing directories are created with 0700. Raises UsageError if the path is
        not such a file, for example a link, a file with hard links or a locked file.
        """
        with self._wrap_os_errors():
            file_copy.copy_file(self.root, path, target)

    def hash_lock_files(self, patterns: Sequence[str] = ()) -> dict[str, str]:
        """Return the files that determine what is installed (see core.text.lock_files), each with the sha256 of
        its content.
        """
        with self._wrap_os_errors(), self._open_root() as top:
            return prepared.hash_lock_files(
                top, ScanRules(self.caches | {b".git"}, prepared=self.prepared), patterns
            )

    def find_setup_products(self, commit: str, first: str | None) -> prepared.SetupProducts:
        """Return what a setup created since a checkpoint; `first` as in `survey_files`."""
        with self._wrap_os_errors(), self._open_root() as top:
            last = baseline.load_baseline(self.git)
            now = self._take_snapshot(top, last, last.list_directories(), writing=False)
            tracked = context.Tracked(self.git, first)
            return prepared.find_products(self.root, now, objects.read_tree(self.git, commit), tracked)

    def compute_prepared_digest(self, outputs: Sequence[str]) -> str:
        """Return a digest that shows later changes of these paths; no content is read."""
        with self._wrap_os_errors(), self._open_root() as top:
            return prepared.compute_digest(top, outputs)

    def remove_prepared(self, outputs: Sequence[str], *, caches: bool = False) -> None:
        """Remove these paths, and with `caches` all caches without files in a checkpoint."""
        with self._wrap_os_errors(), self._open_root(unlocking=True) as top:
            raw = set(map(file_names.from_json, outputs))
            if caches:
                last = baseline.load_baseline(self.git)
                now = scan_workspace(top, ScanRules(self.caches, last.list_directories(), unlocking=True))
                raw |= {path for path, thing in now.unstored.items() if thing.why == CACHE}
            self._remove_paths(top, sorted(raw))

    def save_prepared(self, outputs: Sequence[str], folder: Path) -> prepared.Saved:
        """Copy these paths into a new directory."""
        with self._wrap_os_errors(), self._open_root() as top:
            return prepared.save_outputs(top, self.root, outputs, folder)

    def restore_prepared(self, saved: prepared.Saved, folder: Path) -> tuple[str, ...]:
        """Copy them back into this workspace, replacing what exists; return
        the restored paths.
        """
        with self._wrap_os_errors(), self._open_root(unlocking=True) as top:
            return prepared.restore_outputs(self.git, top, self.root, saved, folder)


def _list_skipped(things: dict[bytes, Unstored]) -> tuple[str, ...]:
    first = [f"{_format_path(path, things[path])} ({things[path].why})" for path in sorted(things)[:NAMED]]
    more = len(things) - len(first)
    return tuple(first + [f"... and {more} more"] * bool(more))


def _format_path(path: bytes, thing: Unstored) -> str:
    return file_names.to_display(path + b"/" if thing.mode == DIRECTORY_MODE else path)
