"""What the tools of the MCP server do, without the protocol: arguments of an agent in, JSON data out.

Every argument comes from an agent, so ids, names and lengths are checked before they reach a command or a file.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logist import documents
from logist.config.environment import Environment
from logist.config.settings import LoadedSettings, load_settings
from logist.core.model import JobSpec
from logist.core.text.ids import is_job_id
from logist.errors import Refused, UsageError
from logist.jobs.base import create, job_names, project_opening, specs
from logist.jobs.base.project import ProjectContext
from logist.mcp_server import job_rules
from logist.mcp_server.commands import Commands
from logist.store import JobDir
from logist.store.progress import ProgressReader, read_last_record
from logist.store.progress_text import EventFilter, format_progress

LONGEST_PROMPT = 200_000
LONGEST_DIAGRAM = 200_000
LONGEST_TEXT = 40_000
"""Characters of a diff or another long text in an answer; the model of the client pays for each of them."""
MOST_JOBS = 100
MOST_EVENTS = 30
TAG = "mcp"
"""Marks the jobs that agents have created."""
Json = dict[str, Any]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
_ROW = ("id", "status", "title", "role", "cost_cents", "updated_at", "reason")
_STATUS = ("id", "status", "awaiting", "stuck_kind", "reason", "step", "role", "cost_cents", "held_by")
_STATUS_MORE = ("limits", "stuck", "progress", "last", "checks", "findings", "artefacts")
_PREVIEW = (
    "job",
    "status",
    "role",
    "phase",
    "model",
    "attempt",
    "worst_case_cents",
    "prompt_tokens",
    "reason",
)


class ServedJobs:
    """The jobs of the project around a directory; can be used from any thread."""

    def __init__(self, environment: Environment, directory: Path) -> None:
        home = environment.find_home(directory)
        if home.source == "user" and not environment.has_jobs_dir():
            raise UsageError(
                "no Logist project here or in a directory above", fix="to create one: logist init"
            )
        self._environment = environment
        self._directory = directory
        self._home = home.path
        self._jobs_dir = environment.jobs_dir(None, directory)
        self._commands = Commands(directory)

    def list_jobs(self, status: str | None, limit: int) -> Json:
        """List the jobs that changed last."""
        chosen = ("--status", _require_name(status, "status")) if status else ()
        count = str(max(1, min(limit, MOST_JOBS)))
        rows = self._commands.read("job", "list", "--sort", "-updated", "--limit", count, *chosen)
        return {"jobs": [_pick(row, _ROW) for row in rows]}

    def show_job(self, job: str, *, diff: bool, tail: bool) -> Json:
        """Show the state of a job, its question and its last answer.

        `diff`: also what agents have changed. `tail`: also what the agent at work does.
        """
        job = _require_job(job)
        status = self._commands.read("job", "status", f"--job={job}", "-v")
        shown = self._commands.read("job", "show", f"--job={job}")
        described = _pick(status, (*_STATUS, *_STATUS_MORE))
        described |= {"question": shown["question"], "answers": shown["answers"][-1:]}
        if diff:
            described["diff"] = self.read_diff(job)
        if tail:
            described["tail"] = _read_tail(JobDir.open(self._jobs_dir, job))
        return _shorten_all(described)

    def create_job(
        self,
        prompt: str | None,
        *,
        job: str | None,
        title: str | None,
        acceptance_criteria: list[str] | None,
        role: str | None,
        workflow: str | None,
        mermaid: str | None,
        job_input: Json | None,
    ) -> Json:
        """Create a job that keeps the rules of `job_rules`."""
        if workflow and mermaid:
            raise UsageError("more than one workflow", where="mermaid", fix="pass either workflow or mermaid")
        _require_length(prompt, LONGEST_PROMPT, "prompt")
        with self._find_workflow(workflow, mermaid) as flow:
            fields = {
                "prompt": prompt,
                "title": title,
                "acceptance_criteria": acceptance_criteria,
                "role": role,
                "workflow": flow,
                "input": job_input,
                "tags": [TAG],
            }
            values = {name: value for name, value in fields.items() if value is not None}
            if len(json.dumps(values)) > 3 * LONGEST_PROMPT:
                raise UsageError("the job is too long", fix="put long texts into files of the repository")
            if prompt is not None and not prompt.strip():
                raise UsageError("the prompt is empty", where="prompt")
            given = documents.validate_document(JobSpec, documents.Document("create_job", values, {}))
            messages: list[str] = []
            loaded, project = self._load_settings(), self._open(messages.append)
            job_rules.require_cost_limit(loaded)
            spec = job_rules.restrict_spec(loaded, given)
            job_id = _require_job(job) if job else job_names.create_job_id(spec)
            planned = create.plan_job(project, job_id, spec, here=self._directory)
            job_rules.require_reviewed_steps(planned.flow)
            job_rules.require_rules(loaded, job_id, spec, planned.effective)
            created = create.create_job(project, job_id, spec, here=self._directory)
        warnings = [*messages, *created.warnings]
        return {"job": created.job.id, "status": created.state.status.value, "warnings": warnings}

    def preview_job(self, job: str) -> Json:
        """Show what the next step would ask, and what it can cost at most."""
        return _pick(self._commands.read("job", "preview", f"--job={_require_job(job)}"), _PREVIEW)

    def run_job(self, job: str, *, one_step: bool) -> Json:
        """Start a step of a job, or run it until it stops; return while it works."""
        job = _require_job(job)
        loaded, project = self._load_settings(), self._open(lambda text: None)
        directory = project.open_job(job)
        spec = specs.read_job_spec(directory)
        effective = specs.load_effective_spec(project, directory)
        job_rules.require_rules(loaded, job, spec, effective)
        works = self._commands.start("job", "step" if one_step else "run", f"--job={job}", "--quiet")
        status = _pick(self._commands.read("job", "status", f"--job={job}"), _STATUS)
        return {"started": True, "still_works": works, **status}

    def gather_statistics(self, by: str) -> Any:
        """Add up how agents did in all jobs."""
        return self._commands.read("stats", "--by", _require_name(by, "by"))

    def replay_job(self, job: str) -> Any:
        """Replay the history of a job with the current rules."""
        return _shorten(self._commands.read("job", "replay", f"--job={_require_job(job)}"))

    def ask_steward(self, job: str) -> Json:
        """Tell what a person is asked about a job, and where that person decides it. Decides nothing."""
        job = _require_job(job)
        waiting = [item for item in self._commands.read("inbox") if item["job"] == job]
        shown = self._commands.read("job", "show", f"--job={job}")
        pages = [f"http://127.0.0.1:{port}" for port in _find_pages(self._home)]
        why = _pick(waiting[0], ("kind", "reason", "changed_files")) if waiting else {}
        asked = {
            "waits_for_person": bool(waiting),
            **why,
            "question": shown["question"],
            "page": pages[0] if pages else "not open; a person opens it with: logist serve",
            "in_a_terminal": "logist inbox -i",
            "note": "Give this to the person, and wait. Only a person may decide.",
        }
        return _shorten_all({"job": job, "status": shown["status"], **asked})

    def follow_workflow(
        self, workflow: str | None, mermaid: str | None, completed: Iterable[str], context: Json | None
    ) -> Any:
        """Return the next step of a workflow that the agent follows itself, without a job."""
        if bool(workflow) == bool(mermaid):
            raise UsageError("no workflow, or two", where="workflow", fix="pass either workflow or mermaid")
        done = [f"--completed={step}" for step in completed]
        data = () if context is None else (f"--context={json.dumps(context)}",)
        if sum(map(len, (*done, *data))) > LONGEST_TEXT:
            raise UsageError("completed and context are too long", where="context")
        with self._find_workflow(workflow, mermaid) as flow:
            return self._commands.read("workflow", "next", str(flow), *done, *data)

    def read_history(self, job: str) -> str:
        """Return the history of a job as JSON."""
        return json.dumps(self._commands.read("job", "history", f"--job={_require_job(job)}"))

    def read_diff(self, job: str) -> str:
        """Return what agents have changed, as a patch."""
        patch: str = self._commands.read("job", "diff", f"--job={_require_job(job)}")["patch"]
        return _cut(patch)

    def read_prompt(self, job: str) -> str:
        """Return the prompt that the next step would send."""
        request = self._commands.read("job", "preview", f"--job={_require_job(job)}")["request"]
        if request is None:
            raise Refused("a step would send nothing now", where=job)
        return _cut(request["prompt"])

    def _load_settings(self) -> LoadedSettings:
        return load_settings(self._home, self._environment.user_config_dir())

    def _open(self, say: Callable[[str], None]) -> ProjectContext:
        return project_opening.open_project(self._environment, self._directory, say=say)

    @contextmanager
    def _find_workflow(self, name: str | None, mermaid: str | None) -> Iterator[str | None]:
        """Yield what a spec names as its workflow. A diagram is in a file only as long as it is read."""
        if mermaid is None:
            yield _require_name(name, "workflow") if name else None
            return
        _require_length(mermaid, LONGEST_DIAGRAM, "mermaid")
        with tempfile.TemporaryDirectory(prefix="logist-mcp-") as folder:
            path = Path(folder, "workflow.mmd")
            path.write_text(mermaid, "utf-8")
            yield str(path)


def _read_tail(job: JobDir) -> list[str]:
    """Return what the agent at work has done last, and does now; nothing if none works."""
    now = read_last_record(job.inflight)
    if now is None or not job.has_running_agent():
        return []
    events, reader = EventFilter(), ProgressReader(job.inflight)
    try:
        last = deque((each for each in reader.read_new() if events.is_event(job.id, each)), MOST_EVENTS)
    finally:
        reader.close()
    return [format_progress(each, each.seconds) for each in (*last, now)]


def _find_pages(home: Path) -> list[int]:
    """Return the ports at which the page of the project is open."""
    try:
        from logist.web.server import find_servers  # noqa: PLC0415 - another extra
    except ModuleNotFoundError:  # the extra `web` is not installed, so nobody serves the page from here
        return []
    return [port for port, _ in find_servers(home)]


def _require_job(job: str) -> str:
    """Return a job id. Raises UsageError for anything else, such as a path."""
    if not is_job_id(job):
        raise UsageError("invalid job id", where="job", fix="list_jobs lists the ids")
    return job


def _require_name(name: str, field: str) -> str:
    """Return a name, which is no path and no option. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            "invalid name; paths are not allowed", where=field, fix="use letters, digits, _ and -"
        )
    return name


def _require_length(text: str | None, longest: int, field: str) -> None:
    if text is not None and len(text) > longest:
        fix = "put long texts into files of the repository"
        raise UsageError(f"longer than {longest:,} characters", where=field, fix=fix)


def _pick(row: Json, names: Iterable[str]) -> Json:
    return {name: row[name] for name in names if row.get(name) not in (None, "", [], {})}


def _shorten_all(fields: Json) -> Json:
    return {name: _shorten(each) for name, each in fields.items()}


def _shorten(value: Any) -> Any:
    """Return JSON data with its long texts cut."""
    if isinstance(value, dict):
        return _shorten_all(value)
    if isinstance(value, list):
        return [_shorten(each) for each in value]
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters]"
