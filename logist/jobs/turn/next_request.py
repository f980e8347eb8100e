"""Builds the request that the next step would send: `job preview`, and the first half of `job step`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from logist import __version__, systems
from logist.agents import sandbox
from logist.agents.courier import shared_limits
from logist.agents.protocol import MODEL_AGENTS
from logist.config.providers import find_provider
from logist.config.settings import advise_about_price
from logist.core.answer import exit_command
from logist.core.history import fold
from logist.core.machine import targets
from logist.core.machine.limits import Halt, Shared
from logist.core.model import (
    TERMINAL,
    EffectiveSpec,
    ExitAction,
    JsonObject,
    Model,
    Phase,
    Provider,
    Role,
    State,
)
from logist.core.money import money
from logist.core.permissions.tools import Tool, is_server_tool, select_role_tools, to_function_schema
from logist.core.prompt import prompt
from logist.core.prompt.budget import BYTES_PER_TOKEN
from logist.core.prompt.prompt import FileText
from logist.core.relevance import Task, kinds
from logist.core.replay import drift_causes, replay_checks
from logist.core.step import step, step_instructions
from logist.core.step.step import Idle, RequestBounds, StepPlan
from logist.core.text import patterns
from logist.errors import InvalidFile, Refused
from logist.jobs.base import adopted_jobs, linux_only, model_choice, specs
from logist.jobs.base.session import Session, load_session
from logist.jobs.turn import agent_calls, answer_forms, answer_recording, surroundings
from logist.quick_dataclass import dataclass
from logist.workspace.files import agent_files

if TYPE_CHECKING:
    from logist.config.sections import ContextRules
    from logist.core.prompt.search_report import SearchReport
    from logist.core.step.model_choice import ChosenModel
    from logist.jobs.base.project import ProjectContext
    from logist.workspace import Checkpoint, Workspace


@dataclass(frozen=True)
class Choice:
    """The options that a person chose for one step."""

    role: str | None = None
    model: str | None = None
    wait: float = 0.0
    command: str = "step"
    provider_wait: float = 0.0
    """Seconds to wait for a provider that is not available, before the step ends."""
    strict: bool = False
    """Refuse to run if a template has unfilled placeholders."""


@dataclass(frozen=True)
class PlannedTurn:
    """The role and agent of the next turn; built before the workspace is read, so that errors appear early."""

    spec: EffectiveSpec
    phase: Phase
    role: Role
    model: Model
    choice: Choice
    agent: str
    """The agent to call: `litellm`, `scripted:PATH`, or an agent program."""
    sent: bool
    """False: the answer exists already, so no model is needed, and no limit applies."""
    why: str = ""
    """Why this role was chosen: `task_type is bug`."""
    chosen: ChosenModel | None = None
    """The name of the model, and which setting names it."""
    gate: Provider | None = None
    """Where the gate sends the requests of an agent program; None: there is no gate."""
    why_ungated: str = ""
    """Why there is no gate, although the config wants one."""


def refuse_ended(session: Session) -> None:
    """Raise Refused for a job that has ended."""
    status, job_id = session.state.status, session.job.id
    adopted_jobs.refuse_adopted(session.state)
    if status in TERMINAL:
        fix = f"logist job rerun --job {job_id}, or: logist job restep --job {job_id} --to N"
        raise Refused(f"the job has ended: {status}", fix=fix)


def plan_turn(
    session: Session, spec: EffectiveSpec, phase: Phase, choice: Choice, *, sent: bool = True
) -> PlannedTurn:
    """Plan the turn of a phase.

    Raises InvalidFile for a role, model, price or script that can't be used, UsageError for an unknown role.
    """
    project = session.project
    role, why = _choose_role(project, spec, phase, choice, session.state)
    attempt = session.state.place.attempts + 1
    chosen = model_choice.choose_model(
        project.settings,
        project.environment,
        project.roles.by_name[role.name],
        phase,
        option=choice.model,
        attempt=attempt,
        spec=spec,
        step_id=session.state.step,
    )
    if phase is Phase.DOER:
        role = role.at_attempt(attempt)
    if not sent:
        given = Model(name=chosen.name, provider_model=f"given/{chosen.name}")
        return PlannedTurn(spec, phase, role, given, choice, "given", sent, why, chosen)
    model = project.find_chosen_model(chosen)
    agent = project.choose_agent(role)
    if not project.has_local_agent:
        model_choice.require_client(project.settings, model, agent)
    is_local = project.local_agent is not None  # loads a script, so that an invalid one is reported first
    gate, why_ungated = None, ""
    if not is_local and agent not in MODEL_AGENTS:
        from logist.agents.programs import finding, gated  # noqa: PLC0415 - each shipped program is a module

        # An unknown one is told before anything is written.
        program = finding.load_program(agent, project.settings.agents)
        gate = find_provider(project.settings.providers, model) if project.settings.gate == "on" else None
        if project.settings.gate == "on" and gate is None:
            why_ungated = f"the address of `{model.provider_model}` is unknown"
        elif gate is not None and not gated.can_use_gate(program, model):
            gate, why_ungated = None, f"{agent} can't be given another address for `{model.provider_model}`"
    if not is_local and not project.settings.allow_unknown_price and not money.has_known_price(model):
        raise _unknown_price_error(project, model)
    return PlannedTurn(spec, phase, role, model, choice, agent, sent, why, chosen, gate, why_ungated)


def may_use_network(turn: PlannedTurn) -> bool:
    """True if the agent has network access, as in `agent_calls.describe_agent_work`."""
    return agent_calls.may_use_network(turn.agent, turn.role, turn.gate)


def warn_without_gate(project: ProjectContext, turn: PlannedTurn) -> None:
    """Warn if the requests of a program can't go through the gate."""
    if turn.why_ungated:
        project.warn_once(
            f"warning: {turn.agent} works without the gate: {turn.why_ungated}; its cost is known only at its end "
            "(to limit it, set an `endpoint`; docs/gate.md)"
        )


def require_sandbox(session: Session, turn: PlannedTurn) -> None:
    """Raise Refused if the config requires a sandbox and none works here; warn if it only prefers one.

    On other systems than Linux, raise Refused if anything of this turn, its checks or its review would run a command.
    With workers, each of them judges its own machine.
    """
    project = session.project
    if not systems.IS_LINUX and project.workers is None:
        linux_only.require_linux(_list_linux_needs(session, turn))
    mode = project.settings.sandbox.mode
    runs_commands = turn.agent not in MODEL_AGENTS or turn.role.permissions.can_execute_commands
    if project.has_local_agent or project.workers is not None or not runs_commands:
        return
    if mode == "off" or sandbox.detect_sandbox().kind != "none":
        return
    why = "; ".join(sandbox.detect_sandbox().details)
    fix = "apt install bubblewrap; for details, run: logist doctor"
    if mode == "required":
        raise Refused(f"no sandbox available, but the config requires one: {why}", fix=fix)
    project.warn_once(
        f"warning: no sandbox available: the agent's commands run with your permissions ({fix})"
    )


def _list_linux_needs(session: Session, turn: PlannedTurn) -> Iterator[linux_only.LinuxNeed]:
    project, spec = session.project, turn.spec
    is_reviewed = targets.is_step_reviewed(spec, session.state.step)
    if not project.has_local_agent:
        yield from linux_only.list_role_needs(turn.role, turn.agent)
        name = fold.find_reviewer(spec, session.state)[0]
        if (
            is_reviewed and turn.phase is Phase.DOER and name in project.roles.by_name
        ):  # so that the doer is not paid for nothing
            reviewer = project.roles.get(name)
            yield from linux_only.list_role_needs(reviewer, project.choose_agent(reviewer))
    yield from linux_only.list_setup_needs(project.settings)
    if is_reviewed:
        yield from linux_only.list_check_needs(project.settings, spec)


def _choose_role(
    project: ProjectContext, spec: EffectiveSpec, phase: Phase, choice: Choice, state: State
) -> tuple[Role, str]:
    """The role set with --role, else the one that was STUCK, else the default of the step; and why."""
    default, source = (fold.find_doer if phase is Phase.DOER else fold.find_reviewer)(spec, state)
    stuck = state.place.stuck.role if state.place.stuck else None
    if choice.role:
        why = "set with --role"
    elif stuck:
        why = "it was STUCK"
    else:
        why = "set by review.role" if source == "config" else specs.describe_doer_source(source)
    return project.roles.get(choice.role or stuck or default), why


def _unknown_price_error(project: ProjectContext, model: Model) -> InvalidFile:
    return InvalidFile(
        f"unknown price of model {model.name!r}: can't enforce a cost limit",
        where=f"models.{model.name}",
        fix=advise_about_price(project.settings, model),
    )


def plan_request(
    session: Session,
    turn: PlannedTurn,
    given: prompt.Given,
    shared: Sequence[Shared] = (),
    setup: JsonObject | None = None,
) -> StepPlan | Halt:
    """The exact request, with the context of `gather_context`; or the limit that prevents it.

    `shared`: the limits of jobs above that apply too. `setup`: what to record of the setup of the workspace.
    """
    project = session.project
    planned = step.plan(
        turn.spec,
        session.state,
        turn.role,
        turn.model,
        given,
        RequestBounds(
            min_output_tokens=project.settings.min_output_tokens,
            redact=project.redact,
            prompt_tokens=project.settings.context.budget_tokens,
        ),
        phase=turn.phase,
        free=not turn.sent or project.has_local_agent,
        sent=turn.sent,
        tools=list_offered_tools(session.project, turn),
        agent=turn.agent.partition(":")[0],
        shared=shared,
        form=answer_forms.choose_answer_form(
            project, turn.spec, session.state.step, turn.role, turn.model, turn.agent, turn.phase
        )
        if turn.sent
        else None,
    )
    if isinstance(planned, Halt):
        return planned
    report_template_warnings(project, planned.warnings, strict=turn.choice.strict)
    metadata = {
        **planned.request.metadata,
        "logist": __version__,
        "schema": drift_causes.schema_hash(project.schema),
    }
    if turn.choice.role:
        metadata[replay_checks.CHOSEN] = True
    if setup:
        metadata["setup"] = setup
    request = planned.request.model_copy(
        update={"command": _build_command(session, turn), "metadata": metadata}
    )
    source = turn.chosen.describe_source() if turn.chosen else ""
    return replace(planned, request=request, why=turn.why, model_source=source)


def report_template_warnings(project: ProjectContext, warnings: Sequence[str], *, strict: bool) -> None:
    """Print the placeholders of a template that could not be filled; raise
    InvalidFile for them if `strict`.
    """
    if warnings and strict:
        fix = "fix the workflow, the role or the output of the previous step; without --strict, placeholders stay as written"
        raise InvalidFile("; ".join(warnings), where="template", fix=fix)
    for warning in warnings:
        project.say(f"warning: {warning}")


def list_offered_tools(project: ProjectContext, turn: PlannedTurn) -> list[Tool]:
    """The tools that a model is offered; programs bring their own tools."""
    if turn.agent not in MODEL_AGENTS:
        return []
    tools = select_role_tools(turn.role, project.settings.tools.disabled)
    _require_no_secret(project, turn.role.name, tools)
    return tools


def _require_no_secret(project: ProjectContext, role: str, tools: Sequence[Tool]) -> None:
    """Raise InvalidFile if the description of a server's tool has a secret: it is sent as it is in the role file."""
    for tool in tools:
        if is_server_tool(tool.name) and project.redact(json.dumps(to_function_schema(tool)))[1]:
            raise InvalidFile(
                f"the description of the tool {tool.name} contains what looks like a secret; nothing was sent",
                where=f"role {role}, mcp_servers",
                fix="remove it from the role file",
            )


def _build_command(session: Session, turn: PlannedTurn) -> JsonObject:
    """Build the `request` object of llm-chat-schema.json."""
    chosen = turn.chosen
    options = {"model": chosen.name} if chosen and chosen.is_for_one_command else {}
    return {"action": turn.choice.command, "job_id": session.job.id, "options": options}


def gather_context(
    session: Session,
    turn: PlannedTurn,
    workspace: Workspace,
    found: Checkpoint | None = None,
    report: SearchReport | None = None,
) -> prompt.Given:
    """Collect what the prompt needs from the workspace and from around the
    job: no more than the role requires.

    `found`: the checkpoint that was just made, whose scan of the workspace is used again. `report`: is filled with how
    the relevant files were chosen.
    """
    state, rules = session.state, session.project.settings.context
    excluded = _build_exclusion(rules)
    task = Task.from_spec(turn.spec, step_instructions.render_step_text(turn.spec, state))
    read_file = partial(workspace.read_for_task, task=task, redact=session.project.redact_lines)
    files, room = _read_files(turn, state, workspace, excluded, rules, read_file)
    given = prompt.Given(
        files=files,
        instructions=rules.custom_instructions or "",
        job=session.job.id,
        answer=_read_last_answer(session, turn),
    )
    if turn.role.context_requirements is None:
        listing = workspace.list_files(rules.listing_limit, excluded, found=found)
        unlisted = not listing.paths and bool(workspace.list_files(1, found=found).paths)
        given = replace(given, listing=listing.paths, listing_omitted=listing.omitted, unlisted=unlisted)
    else:
        given = _add_surroundings(given, session, turn, workspace, task, room, report)
    return _add_changes(given, turn, state, workspace, excluded, rules, found)


def _read_last_answer(session: Session, turn: PlannedTurn) -> str:
    """The text of a doer's answer that ended with RETRY, for the next attempt."""
    last = session.state.last
    if turn.phase is not Phase.DOER or last is None or last.phase is not Phase.DOER:
        return ""
    if last.action is not ExitAction.RETRY or step_instructions.is_in_sections(turn.spec, session.state.step):
        return ""  # an answer in sections has no text besides its summary and output
    entry = session.job.read_recent_entry(last.sequence, session.position) or {}
    return exit_command.extract_text_before_command(str(entry.get("response", {}).get("raw_response") or ""))


def _build_exclusion(rules: ContextRules) -> Callable[[str], bool]:
    """A predicate: is a path excluded from all prompts? Each directory is judged once, and most names need no
    pattern.
    """
    excluded = patterns.compile_exclusions(rules.excluded_paths)
    above = cache(partial(excluded.is_ignored, directory=True))
    can_match = patterns.NameGate([excluded]).can_match

    def is_path_excluded(path: str) -> bool:
        directory, _, name = path.rpartition("/")
        if directory and above(directory):
            return True
        return can_match(name) and bool(excluded.match_path(path))

    return is_path_excluded


def _read_files(
    turn: PlannedTurn,
    state: State,
    workspace: Workspace,
    excluded: Callable[[str], bool],
    rules: ContextRules,
    read_file: Callable[[str, int], FileText],
) -> tuple[list[FileText], int]:
    """Read the files that the job names and the evidence of the last answer;
    return them and the bytes left.
    """
    named = turn.spec.files
    evidence = state.last.evidence_files if state.last else []
    files, room = [], rules.max_total_bytes
    hidden = workspace.explain_withheld(
        [path for path in evidence if path not in named], state.start_checkpoint
    )
    hidden |= {
        path: "not shown: context.excluded_paths" for path in evidence if path not in named and excluded(path)
    }
    for path in dict.fromkeys([*named, *evidence]):
        if path in hidden:
            files.append(FileText(agent_files.escape_surrogates(path), None, hidden[path]))
            continue
        file = read_file(path, min(rules.max_file_bytes, room))
        files.append(file)
        room -= len((file.text or "").encode("utf-8"))
    return files, room


def _add_surroundings(
    given: prompt.Given,
    session: Session,
    turn: PlannedTurn,
    workspace: Workspace,
    task: Task,
    room: int,
    report: SearchReport | None,
) -> prompt.Given:
    """Add the parts of the context that the role requires; the others are not even read."""
    project, state, job_id = session.project, session.state, session.job.id
    rules, required = project.settings.context, turn.role.context_requirements or ()
    parts: dict[str, Any] = {}
    if "prior_attempts" in required:  # the prompt has the last answer anyway
        skipped = 1 if state.last else 0
        parts["attempts"] = surroundings.describe_attempts(
            surroundings.read_runs(session.job, session.position, rules.prior_attempts_limit + skipped),
            project.redact_text,
            limit=rules.prior_attempts_limit,
            told=skipped,
        )
    if "session_context" in required or "related_tasks" in required:
        glances = surroundings.load_glances(project)
        if "session_context" in required:
            parts["others"] = surroundings.describe_other_jobs(project, job_id, glances)
        if "related_tasks" in required:
            parts["related"] = surroundings.describe_related_jobs(project, turn.spec, job_id, glances)
    if "repo_structure" in required or "relevant_files" in required:
        survey = workspace.survey_files(rules.excluded_paths, state.start_checkpoint)
        if "repo_structure" in required:
            tree = workspace.describe_structure(survey)
            excerpts = workspace.describe_key_files(survey, project.redact_lines)
            structure = "\n\n".join(text for text in (tree, excerpts) if text)
            parts |= {"structure": structure, "unlisted": survey.unlisted}
        if "relevant_files" in required:
            parts["relevant"] = workspace.find_relevant(
                survey,
                task,
                limit=rules.relevant_files_limit,
                max_file_bytes=rules.max_file_bytes,
                max_total_bytes=min(room, rules.relevant_files_tokens * BYTES_PER_TOKEN),
                redact=project.redact_lines,
                known={file.path for file in given.files},
                source=state.source,
                first=state.start_checkpoint,
                report=report,
            )
            parts["unsearched"] = workspace.describe_unsearched(survey)
    return replace(given, **parts)


def _add_changes(
    given: prompt.Given,
    turn: PlannedTurn,
    state: State,
    workspace: Workspace,
    excluded: Callable[[str], bool],
    rules: ContextRules,
    found: Checkpoint | None,
) -> prompt.Given:
    """Add the doer's changes, for a reviewer."""
    if not state.start_checkpoint or turn.phase is not Phase.REVIEWER:
        return given
    changes, omitted = workspace.list_changes(state.start_checkpoint, None, rules.listing_limit, found=found)
    diff, is_complete = "", True
    if state.checkpoint:
        start, current, most = state.start_checkpoint, state.checkpoint, rules.max_file_bytes
        diff, is_complete = workspace.build_patch(
            start, current, most, lambda path: excluded(path) or kinds.classify_file(path).secret
        )
    is_partial = bool(omitted) or not is_complete
    return replace(given, changes=changes, changes_omitted=omitted, diff=diff, partial=is_partial)


def preview_request(
    project: ProjectContext, job_id: str, choice: Choice, report: SearchReport | None = None
) -> tuple[State, StepPlan | Halt | Idle]:
    """Return the request that a step would send now, without changing the job or taking its lock.

    `report`: is filled with how the relevant files were chosen.
    """
    session = load_session(project, project.open_job(job_id))
    refuse_ended(session)
    if reason := answer_recording.describe_pending_work(session):
        return session.state, Idle(session.state.status, reason)
    idle, phase = step.find_idle_reason(session.state), step.find_due_phase(session.state)
    if idle or phase is None:
        assert idle is not None
        return session.state, idle
    spec = specs.load_effective_spec(project, session.job, say=project.say)
    turn = plan_turn(session, spec, phase, choice)
    shared = shared_limits.list_shared_limits(project.jobs_dir, job_id, spec.limits_above)
    given = gather_context(session, turn, project.open_workspace(session.job), report=report)
    return session.state, plan_request(session, turn, given, shared)
