"""Replaces a text everywhere in a job, its child jobs and, if wanted, its forks: `job scrub`.

A complete copy of each job without the text is made first. The copies take the places of the jobs when all of them
are complete and verified (see `store.scrubs`), so a kill leaves either the old jobs or the new ones. The text itself is
only in the memory of this process, and of one that matches a pattern.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from pathlib import Path
from shlex import quote

from logist import documents
from logist.core.history import fold
from logist.core.model import JsonObject, Kind, State
from logist.core.model.commands import ScrubCommand, SignedBefore
from logist.core.secrets.erasing import LONGEST, Eraser, list_variants
from logist.core.secrets.redact import REDACTED
from logist.core.share.words import KEPT
from logist.core.text.counts import format_count
from logist.errors import Damaged, InvalidFile, LogistError, Refused, UsageError
from logist.jobs.archive.recorded_jobs import Archive
from logist.jobs.base import job_reader
from logist.jobs.base.project import ProjectContext
from logist.jobs.base.session import Session, open_session
from logist.jobs.base.stored_records import dump_interaction, dump_state, parse_interaction
from logist.jobs.base.truncation import Forks
from logist.jobs.erasure import history_scrub
from logist.jobs.erasure.file_scrub import CopiedFiles, FileScrub, list_names_renamer
from logist.jobs.erasure.pattern_search import PatternSearch
from logist.jobs.steward import signed_decisions
from logist.jobs.steward.job_deletion import list_with_children
from logist.quick_dataclass import dataclass
from logist.regular_files import open_regular
from logist.store import HISTORY, SIGNATURES, JobDir, files, list_jobs, scrubs, segments
from logist.store import lock as store_lock
from logist.workspace import readable_history, source
from logist.workspace.checkpoint import kept_packs, rewriting
from logist.workspace.checkpoint.rewriting import RewrittenRepository
from logist.workspace.context import WORDS_FOLDER, word_index
from logist.workspace.files import safe_open
from logist.workspace.git import Git

SHORTEST = 6
"""The minimum length of a value, unless it is forced: a shorter one is a part of many ordinary texts."""
_HISTORY_FILES = (HISTORY, "state.json", SIGNATURES, "job.yaml", "git", "workspace")
"""Files that are not just copied."""
_MOST_DRAFT = 1_000_000


@dataclass(frozen=True)
class ScrubOptions:
    """What to erase, and how."""

    value: str | None = None
    pattern: str | None = None
    reason: str | None = None
    forks: bool = False
    """Scrub the forks of the jobs too."""
    force: bool = False
    """Allow a short value."""
    dry_run: bool = False


@dataclass
class ScrubbedJob:
    """What was replaced in one job."""

    job_id: str
    history: int = 0
    files: int = 0
    checkpoints: int = 0
    sequence: int | None = None
    """The interaction that records it; None if nothing was replaced."""
    signed: int = 0
    """Decisions whose signature was valid, and no longer is."""
    differs: int = 0
    """Interactions that now replay with another result."""
    notes: list[str] = field(default_factory=list)

    @property
    def places(self) -> int:
        """How often the text was replaced."""
        return self.history + self.files + self.checkpoints


@dataclass(frozen=True)
class RemainingCopy:
    """A place outside of the jobs that still has the text, or may have it."""

    place: str
    fix: str


@dataclass
class ScrubResult:
    """What was replaced, and where the text still is."""

    jobs: list[ScrubbedJob] = field(default_factory=list)
    remaining: list[RemainingCopy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def places(self) -> int:
        """How often the text was replaced."""
        return sum(job.places for job in self.jobs)


def scrub_job(project: ProjectContext, job_id: str, options: ScrubOptions) -> ScrubResult:
    """Erase a text from a job and its child jobs; they are all replaced, or none is.

    Raises Busy while a command works on one of them, Refused for an answer that is not recorded, a child of a job that
    exists, and a value that can't be erased; Damaged for a job that doesn't verify.
    """
    if project.jobs_dir.is_dir():
        scrubs.finish_scrubs(project.jobs_dir)
    job_ids = list_family(project, job_id, forks=options.forks)
    _require_no_parent(project, job_id)
    if options.value is not None:
        require_erasable([options.value], force=options.force)
    with ExitStack() as held:
        # In one order, so that two scrubs never wait for each other.
        sessions = {
            each: held.enter_context(open_session(project, each, "job scrub")) for each in sorted(job_ids)
        }
        for session in sessions.values():
            _require_at_rest(project, session)
        values = [options.value] if options.value is not None else _match_pattern(sessions.values(), options)
        with_past = [each for each in job_ids if readable_history.has_record(sessions[each].job.git_dir)]
        if not values:
            result = ScrubResult([ScrubbedJob(each) for each in job_ids])
            _remove_past_commits(project, result, with_past, options)
            return result
        eraser = Eraser(tuple(dict.fromkeys(each for value in values for each in list_variants(value))))
        for each in sessions:
            if eraser.find(each):
                message = (
                    "the id of the job contains the value, and it is in the names of directories and branches"
                )
                fix = "a job can't be renamed: export what you need of it with --redact, and delete it"
                raise Refused(message, fix=fix)
        with scrubs.begin_scrub(project.jobs_dir) as scrub:
            work = _FamilyScrub(project, options, eraser, scrub, [sessions[each] for each in job_ids])
            result = work.run()
        _remove_past_commits(project, result, with_past, options)
        return result


def _remove_past_commits(
    project: ProjectContext, result: ScrubResult, job_ids: Collection[str], options: ScrubOptions
) -> None:
    """Remove the past commits of the user from the workspaces of these jobs: any of them may have the text."""
    for job in result.jobs:
        if job.job_id not in job_ids:
            continue
        original = project.open_job(job.job_id)
        if options.dry_run:
            job.notes.append(
                "the past commits in its workspace would be removed, because they may have the text"
            )
            continue
        if readable_history.has_record(original.git_dir):  # the job itself had nothing to replace
            project.open_workspace(original).hide_history()
        job.notes.append("the past commits in its workspace were removed, because they may have the text")


def list_family(project: ProjectContext, job_id: str, *, forks: bool) -> list[str]:
    """Return the job and its children, and with `forks` all jobs that were forked from one of them, and theirs."""
    family = dict.fromkeys(reversed(list_with_children(project, [job_id])))
    by_origin = Forks(project.jobs_dir).by_origin if forks else {}
    for each in (waiting := list(family)):  # it grows
        for fork, _ in by_origin.get(each, ()):
            if fork.id not in family:
                new = [
                    name for name in reversed(list_with_children(project, [fork.id])) if name not in family
                ]
                family |= dict.fromkeys(new)
                waiting += new
    return list(family)


def _require_no_parent(project: ProjectContext, job_id: str) -> None:
    parent = (project.open_job(job_id).read_state() or {}).get("parent")
    if isinstance(parent, str) and (project.jobs_dir / parent).is_dir():
        message = f"{job_id} is a child job of {parent}, which has its work too"
        raise Refused(message, fix=f"scrub both: logist job scrub --job {parent}")


def require_erasable(values: Sequence[str], *, force: bool) -> None:
    """Raise UsageError, Refused for a value that would destroy more than itself. No message contains it."""
    for value in values:
        if not value.strip():
            raise UsageError("the value is empty", fix="enter the text to erase")
        if len(value) > LONGEST:
            message = f"the value is longer than {LONGEST:,} characters"
            raise UsageError(message, fix="use a part of it that is nowhere else")
        if len(value) < SHORTEST and not force:
            message = (
                f"the value has {format_count(len(value), 'character')}, so it is also a part of other texts"
            )
            raise Refused(message, fix=f"use {SHORTEST} characters or more, or --force")
        if value in REDACTED:
            raise UsageError(f"the value is a part of {REDACTED}, which replaces it", fix="use a longer text")
        if any(value in word for word in KEPT):
            message = "the value is a part of a word that Logist's own files consist of"
            raise Refused(message, fix="use a longer text")


def _match_pattern(sessions: Iterable[Session], options: ScrubOptions) -> list[str]:
    search = PatternSearch(options.pattern or "")
    try:
        for session in sessions:
            search.search_job(session.job)
    finally:
        search.close()
    require_erasable(sorted(search.values), force=options.force)
    # A longer value first: it may contain another one.
    return sorted(search.values, key=lambda value: (-len(value), value))


def _require_at_rest(project: ProjectContext, session: Session) -> None:
    job, job_id = session.job, session.job.id
    if os.path.lexists(job.inflight) or session.find_unfinished_restore():
        message = f"can't scrub {job_id}: a command was interrupted, and its work is not recorded yet"
        raise Refused(message, where=str(job.path), fix=f"logist job step --job {job_id}")
    problems = job_reader.verify_job(project, job).problems
    if problems:
        fix = f"logist job verify --job {job_id}"
        raise Damaged(f"can't scrub {job_id}: {problems[0].message}", where=str(job.path), fix=fix)


@dataclass
class _JobCopy:
    """The copy of one job, while it is made."""

    session: Session
    job: JobDir
    """The copy."""
    result: ScrubbedJob
    repository: RewrittenRepository | None = None
    copied: CopiedFiles = field(default_factory=CopiedFiles)
    is_changed: bool = False

    @property
    def original(self) -> JobDir:
        """The job itself."""
        return self.session.job


class _FamilyScrub:
    """One scrub of some jobs that belong together."""

    def __init__(
        self,
        project: ProjectContext,
        options: ScrubOptions,
        eraser: Eraser,
        scrub: scrubs.Scrub,
        sessions: Sequence[Session],
    ) -> None:
        self.project, self.options, self.eraser, self.scrub = project, options, eraser, scrub
        self.copies = [
            _JobCopy(
                session,
                JobDir(scrub.make_copy(session.job.id), session.job.id),
                ScrubbedJob(session.job.id),
            )
            for session in sessions
        ]
        self.renames: dict[str, str] = {}
        self.result = ScrubResult([copy.result for copy in self.copies])

    def run(self) -> ScrubResult:
        """Make the copies, and put them in the places of the jobs."""
        with files.convert_os_errors(self.project.jobs_dir), files.defer_flushes(self.scrub.folder):
            for copy in self.copies:  # a history can name checkpoints of the other jobs
                self._rewrite_checkpoints(copy)
            for copy in self.copies:
                self._copy_files(copy)
                self._rewrite_history(copy)
        changed = [copy for copy in self.copies if copy.is_changed]
        objects = [
            name for copy in changed if copy.repository is not None for name in copy.repository.objects
        ]
        self._find_remaining(changed, objects)
        if changed and not self.options.dry_run:
            self._clean_outside(objects)
            self.scrub.replace_jobs([copy.original.id for copy in changed])
        return self.result

    def _rewrite_checkpoints(self, copy: _JobCopy) -> None:
        if not copy.original.git_dir.is_dir():
            return
        old = self.project.open_workspace(copy.original).git
        new = replace(old, git_dir=copy.job.git_dir.absolute(), flushing=False)
        rewritten = rewriting.rewrite_repository(
            old, new, self.eraser.replace_blocks, list_names_renamer(self.eraser)
        )
        copy.repository = rewritten
        copy.result.checkpoints = sum(rewritten.places)
        self.renames |= rewritten.renames
        state = copy.session.state
        if state.start_checkpoint in rewritten.objects and state.source is not None and state.merge is None:
            copy.result.notes.append(
                "the commit that it began with had the text, so its work can't be merged as it is; when your repository is "
                f"without the text: logist job update --job {copy.original.id} --onto HEAD"
            )

    def _copy_files(self, copy: _JobCopy) -> None:
        scrub = FileScrub(self.eraser)
        left_out = [
            os.fsencode(name)
            for name in os.listdir(copy.original.path)
            if name in _HISTORY_FILES
            or segments.NAME.fullmatch(name)
            or (name.startswith(".") and name.endswith(files.TEMPORARY))
        ]
        with (
            files.convert_os_errors(copy.original.path),
            safe_open.open_root(copy.original.path) as old,
            safe_open.open_root(copy.job.path) as new,
        ):
            scrub.copy_directory(old, new, leave_out=left_out)
            if copy.original.workspace.is_dir():
                os.mkdir("workspace", 0o700, dir_fd=new)
                with (
                    safe_open.open_below(old, [b"workspace"], unlocking=True) as old_workspace,
                    safe_open.open_below(new, [b"workspace"]) as new_workspace,
                ):
                    scrub.copy_directory(old_workspace, new_workspace, b"workspace", leave_out=[b".git"])
        self._copy_spec(copy, scrub.done)
        store_lock.create_signatures(copy.job.path)
        copy.copied = scrub.done
        if copy.job.workspace.is_dir() and copy.repository is not None:
            source.create_agent_git(self._git_of(copy), copy.job.workspace)
        if scrub.done.nested:
            named = ", ".join(self.eraser.replace(name)[0] for name in sorted(scrub.done.nested)[:3])
            copy.result.notes.append(
                f"not searched: the compressed objects of git repositories in the workspace ({named})"
            )

    def _git_of(self, copy: _JobCopy) -> Git:
        git = self.project.open_workspace(copy.original).git
        return replace(git, git_dir=copy.job.git_dir.absolute(), flushing=False)

    def _copy_spec(self, copy: _JobCopy, done: CopiedFiles) -> None:
        """Copy job.yaml. If the text can't be replaced in place, it is written again, without its comments."""
        data = files.read_bytes(copy.original.spec_file)
        if data is None:
            return
        text = data.decode("utf-8", "surrogateescape")
        replaced, places = self.eraser.replace(text)
        inside = 0
        try:
            fields = documents.parse_document(text, copy.original.spec_file.name).data
            wanted, inside = self.eraser.replace_json(fields)
        except InvalidFile:
            wanted = None
        if wanted is not None and (places or inside) and not _says(replaced, wanted):
            replaced = documents.dump_yaml(wanted)
            copy.result.notes.append("job.yaml was written again: its comments are lost")
        if places or inside:
            done.places.append(max(places, inside))
        files.replace_file(copy.job.spec_file, replaced.encode("utf-8", "surrogateescape"))

    def _rewrite_history(self, copy: _JobCopy) -> None:
        original, job = copy.original, copy.job
        targets = history_scrub.read_restep_targets(original)
        try:
            done = history_scrub.rewrite_history(
                original, job.history_file, self.eraser, self.renames, targets
            )
        except Damaged as error:  # the history itself was verified
            raise self._make_damage_error(original.id, error.message) from None
        if done.state is None or done.end.hash is None:
            raise Damaged("the history is empty", where=str(original.history_file))
        copy.result.history = done.places
        removed = job.read_cleaned()
        if removed is not None and removed.head in done.heads:
            job.write_cleaned(removed._replace(head=done.heads[removed.head]))
        if copy.session.torn:
            torn = self.eraser.replace(copy.session.torn.decode("utf-8", "surrogateescape"))[0]
            name = f"torn-{done.end.sequence + 1}.txt"
            job.write_log(name, torn.encode("utf-8", "surrogateescape"))
        copy.result.files = sum(copy.copied.places)
        has_new_names = bool(copy.repository and copy.repository.objects)
        copy.is_changed = (
            bool(copy.result.places) or has_new_names or done.end.hash != copy.session.position.hash
        )
        if not copy.is_changed:
            return
        self._require_none_left(copy)
        before = history_scrub.find_differing(Archive.from_job(original), self.project.schema)
        after = history_scrub.find_differing(Archive.from_job(job), self.project.schema)
        differs = sorted(after - before)
        signed = list(_list_signed_before(self.project, original, job))
        copy.result.signed, copy.result.differs = len(signed), len(differs)
        old_head = copy.session.position.hash
        command = ScrubCommand(
            reason=self.eraser.replace(self.options.reason or "")[0] or None,
            places=copy.result.places,
            history=copy.result.history,
            files=copy.result.files,
            checkpoints=copy.result.checkpoints,
            old_head=old_head,
            head=done.end.hash,
            signed=signed or None,
            differs=differs or None,
        )
        copy.result.sequence = done.end.sequence + 1
        if self.options.dry_run:
            return
        session = replace(copy.session, state=done.state, position=done.end, torn=b"")
        entry = session.build_interaction(Kind.SCRUB, done.state.place, command=command)
        erased, _ = history_scrub.erase_entry(dump_interaction(entry), self.eraser, {})
        entry = signed_decisions.sign_decision(session, parse_interaction(erased), done.state.revision)
        appended = job.append_entries(done.end, [dump_interaction(entry)])
        state = fold.apply_interaction(done.state, parse_interaction(appended.entries[0]))
        job.write_state(dump_state(state, appended.position))
        self._verify(copy, state)

    def _require_none_left(self, copy: _JobCopy) -> None:
        """Raise Refused if the text is still in the new history: replacing it twice must change nothing."""
        for entry in copy.job.read_entries():
            if history_scrub.erase_entry(entry, self.eraser, {})[1]:
                message = f"can't erase it from interaction {entry['sequence']}: it is formed again by the text around it"
                raise Refused(message, fix="nothing was changed; scrub a longer part of the text first")

    def _verify(self, copy: _JobCopy, state: State) -> None:
        """Raise Refused for a copy that is not a valid job: the value was a part of what Logist needs."""
        try:
            problems = [problem.message for problem in copy.job.verify()]
            loaded = copy.job.load()
            if loaded.state is None or loaded.entries or loaded.position.sequence != state.revision:
                problems.append("its state does not match")
        except LogistError as error:
            problems = [error.message]
        if problems:
            raise self._make_damage_error(copy.original.id, problems[0])

    def _make_damage_error(self, job_id: str, problem: str) -> Refused:
        message = f"can't scrub {job_id}: without the value, the job would be damaged: {problem}"
        fix = "nothing was changed; use a longer text, or delete the job"
        return Refused(self.eraser.replace(message)[0], fix=fix)

    def _clean_outside(self, objects: Sequence[str]) -> None:
        """Remove the text from what belongs to no single job: drafts of comments, and packs for new jobs."""
        project = self.project
        drafts = list(_scrub_drafts(project.home / "serve" / "drafts", self.eraser))
        if drafts:
            self.result.notes.append(
                f"replaced in {format_count(len(drafts), 'draft')} of comments on the page"
            )
        words = project.jobs_dir / WORDS_FOLDER
        try:
            word_index.remove_index(words)
        except OSError as error:
            where = f"{words} may have words of the text, and can't be removed: {error.strerror}"
            self.result.remaining.append(RemainingCopy(where, f"rm -r {quote(str(words))}"))
        kept = project.jobs_dir / kept_packs.FOLDER
        for folder in _list_directories(kept):
            if rewriting.find_held(folder, objects):
                with suppress(OSError):
                    kept_packs.remove_kept(kept)

    def _find_remaining(self, changed: Sequence[_JobCopy], objects: Sequence[str]) -> None:
        """Find other places with the text, as far as Logist knows where to look."""
        ids = {copy.original.id for copy in changed} | {copy.original.id for copy in self.copies}
        remaining = self.result.remaining
        by_origin = Forks(self.project.jobs_dir).by_origin
        named: set[str] = set()
        for copy in changed:
            for fork, forked in by_origin.get(copy.original.id, ()):
                if fork.id not in ids:
                    named.add(fork.id)
                    where = f"{fork.id} is a fork of {copy.original.id} (at interaction {forked.at}) and may have it"
                    remaining.append(
                        RemainingCopy(where, f"add --forks, or: logist job scrub --job {fork.id}")
                    )
        for job_id in list_jobs(self.project.jobs_dir) if objects else ():
            if job_id not in ids | named and rewriting.find_held(
                self.project.jobs_dir / job_id / "git", objects
            ):
                where = f"{job_id} has checkpoints with the same files"
                remaining.append(RemainingCopy(where, f"logist job scrub --job {job_id}"))
        sources = {
            (copy.session.state.source, copy.original.id)
            for copy in changed
            if copy.session.state.source is not None
        }
        for place, job_id in sorted(sources):
            remaining += _find_in_source(Path(place), job_id, objects, self.project)
        for folder in (self.project.home / "backup", self.project.jobs_dir / ".setup"):
            if file := _find_raw(folder, self.eraser.values):
                where = f"{self.eraser.replace(str(folder))[0]} has it, for example in {self.eraser.replace(file)[0]}"
                remaining.append(RemainingCopy(where, f"rm -r {quote(str(folder))}"))


def _says(text: str, wanted: JsonObject) -> bool:
    """Whether a job.yaml has these fields."""
    try:
        return bool(documents.parse_document(text, "job.yaml").data == wanted)
    except InvalidFile:
        return False


def _list_signed_before(project: ProjectContext, old: JobDir, new: JobDir) -> Iterator[SignedBefore]:
    """Yield the decisions whose signature was valid, and covers something that has changed."""
    entries = [*job_reader.read_interactions(old)] if _has_signatures(old) else []
    checked = {each.sequence: each for each in signed_decisions.check_signatures(project, old.id, entries)}
    for entry in job_reader.read_interactions(new) if entries else ():
        before = checked.get(entry.sequence)
        if before is None or before.problem is not None or not before.is_signed:
            continue
        if before.was_signed_before_scrub or signed_decisions.read_signed_text(
            entry
        ) != signed_decisions.read_signed_text(entries[entry.sequence - 1]):
            yield SignedBefore(sequence=entry.sequence, signer=before.signer or before.signed_by)


def _has_signatures(job: JobDir) -> bool:
    return any(
        isinstance(command := entry.get("command"), dict) and command.get("signature") is not None
        for entry in job.read_entries()
    )


def _scrub_drafts(folder: Path, eraser: Eraser) -> Iterator[Path]:
    """Replace the text in the comments of stewards that were not sent yet; each is one small file."""
    for place in _list_directories(folder):
        for name in sorted(os.listdir(place)):
            with suppress(LogistError):
                data = files.read_bytes(place / name, _MOST_DRAFT)
                erased = history_scrub.erase_json(data, eraser) if data else None
                if erased is not None:
                    files.replace_file(place / name, erased[0])
                    yield place / name


def _list_directories(folder: Path) -> list[Path]:
    try:
        return [folder / entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _find_in_source(
    repository: Path, job_id: str, objects: Sequence[str], project: ProjectContext
) -> Iterator[RemainingCopy]:
    """Yield how the user's repository has the text: on the branch of the job, or otherwise."""
    try:
        git = Git(source.find_objects(repository).parent)
        held = rewriting.find_held(git.git_dir, objects)
        branch = f"logist/{job_id}"
        status, _, _ = git.run_for_status("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    except (LogistError, OSError):
        return
    where = quote(str(repository))
    if status == 0:
        fix = (
            f"if it is not needed: git -C {where} branch -D {branch}; then: git -C {where} reflog expire --expire=now --all; "
            f"git -C {where} gc --prune=now"
        )
        yield RemainingCopy(f"the branch {branch} of {repository} was not scrubbed", fix)
    elif held:
        fix = "remove it from the history of that repository, for example with git filter-repo"
        yield RemainingCopy(f"the repository {repository} has files with it", fix)


def _find_raw(folder: Path, values: Sequence[str]) -> str | None:
    """Return a file that has one of the values, unencoded; None if there is none, or no such directory."""
    wanted = [value.encode("utf-8", "surrogateescape") for value in values]
    longest = max(map(len, wanted))
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                path = os.path.join(place, name)
                descriptor, _ = open_regular(path)
                with open(descriptor, "rb") as file:
                    before = b""
                    while block := file.read(1 << 20):
                        if any(value in before + block for value in wanted):
                            return path
                        before = block[-longest:]
    return None
