"""What a project's files may do only with the user's permission: run programs, send keys, connect to hosts, merge.

A config in a cloned repository was not written by the user. Every key needs permission unless a table below lists
it as harmless, so that new settings need it by default. Permissions are stored next to the user's own config: for
each project, a digest of the value of each such key. Changing other keys needs no new permission.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from logist import documents
from logist.config.locking import hold_lock
from logist.config.sections import PRICES, THIS_MACHINE
from logist.config.settings import LoadedSettings, Settings, can_merge_automatically, has_known_address
from logist.core.model import CHECKS, Role
from logist.digests import compute_sha256
from logist.errors import InvalidFile, LogistError
from logist.quick_dataclass import dataclass

FieldPath = tuple[str, ...]
Allowed = dict[str, str]
"""The digest of each value that the user has allowed, by the dotted path of its key."""

HARMLESS = frozenset(
    tuple(pattern.split("."))
    for pattern in (
        # Cost and duration of work. The user sees them before a step, and no API key is named here.
        *("limits.cost_threshold", "limits.time_threshold_minutes"),
        *("limits.max_allowed_iterations", "limits.max_attempts"),
        *("models.*.price", *(f"models.*.{field}" for field in PRICES)),
        *("models.*.max_output_tokens", "models.*.context_window"),
        *("allow_unknown_price", "min_output_tokens", "max_concurrent_agents"),
        *("agent_timeout_minutes", "poll_interval_seconds", "notify.timeout_seconds"),
        *("answers.constrain", "answers.reask"),
        *("retries.max_tries", "retries.backoff_seconds", "retries.max_wait_minutes"),
        *("tools.max_turns", "tools.max_unknown_calls", "tools.max_result_chars", "tools.command_seconds"),
        *("review.check_timeout_minutes", "review.checks.*.timeout_minutes"),
        *("workspace.max_checkpoint_bytes", "workspace.setup.timeout_minutes", "history.rotate_at"),
        "min_free_bytes",
        "workflow.max_steps",
        # Roles: `agent` and `network` of a project's role are checked separately, and every role may run commands.
        *("roles.default", "roles.type_mapping.*", "review.role"),
        # Work without a review is never merged automatically.
        "review.enabled",
        # The content of prompts, the format of answers, and what `job export` removes from a local file.
        *("context.max_file_bytes", "context.max_total_bytes", "context.listing_limit"),
        *(
            "context.budget_tokens",
            "context.relevant_files_limit",
            "context.relevant_files_tokens",
            "context.prior_attempts_limit",
        ),
        "context.excluded_paths",
        *("context.custom_instructions", "response_format", "redact.patterns"),
    )
)
"""Keys that never run programs, connect to hosts or merge, with any value; `*` matches one name."""

HARMLESS_IN_ROLES = frozenset(
    {
        *("name", "description", "instructions", "prompt_template", "badge", "color"),
        *(
            "temperature",
            "max_output_tokens",
            "applicable_task_types",
            "context_requirements",
            "output_schema",
        ),
        # Commands run in a sandbox without network, and the default role that Logist ships may run them too.
        *("permissions", "can_delegate_to_roles"),
    }
)
ADDRESS = frozenset({"provider_model", "endpoint", "api_key_env"})
"""Fields that determine where the prompts and the key of a model are sent."""

HISTORY = ("workspace", "history")
TEMPLATES = "templates/"
"""How the keys of claims of job templates begin."""
TRUSTED_FILE = "trusted.json"
LOCK_FILE = ".trusted.lock"
MISSING = object()


class Effect(StrEnum):
    """What a key can cause."""

    RUN = "run"
    """Run programs, send keys, connect to hosts; or skip a question to the user."""
    MERGE = "merge"
    """Merge work without a person, or with fewer checks than the user wants."""
    SPEND = "spend"
    """Spend more than a budget in the user's own config allows."""
    CALL_MORE = "call_more"
    """Make more calls than a rate limit in the user's own config allows."""
    SHOW = "show"
    """Show agents what was removed from the user's repository."""


SAFE_VALUES: dict[FieldPath, tuple[tuple[Any, ...], Effect]] = {
    ("on_doubt",): (("stuck",), Effect.RUN),
    ("gate",): (("on",), Effect.RUN),
    # Past commits may hold secrets that were removed later.
    HISTORY: (("none",), Effect.SHOW),
    ("approval",): (("end", "each"), Effect.MERGE),
    ("review", "mode"): (("normal", "strict"), Effect.MERGE),
    ("review", "auto_merge"): ((False,), Effect.MERGE),
}
"""Keys with few values: those that cause nothing, and what any other value can cause."""


@dataclass(frozen=True)
class Claim:
    """A key that a project sets and that is not always harmless, with its current value."""

    path: FieldPath
    value: Any
    file: str
    effect: Effect | None
    """None: harmless with this value, but not with every value."""

    @property
    def key(self) -> str:
        """The dotted path. It is unique, because at most one name in it is chosen by the user."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Trust:
    """What a project claims, compared with what its user has allowed."""

    user_config_dir: Path
    home: Path
    claims: tuple[Claim, ...] = ()
    merges: bool = False
    """Whether the config merges work automatically."""
    trusted_digest: str | None = None
    """The digest of the claims that the user trusts in this process only, from the environment."""
    templates: tuple[Claim, ...] = ()
    """The claims of the job templates of the project, as far as the digest needs them: they count only when one is used."""
    same_values: Mapping[str, Any] = field(default_factory=dict)
    """The keys that the project sets to the same value as without it: nothing to allow, but not removed either."""

    @property
    def powers(self) -> dict[str, Any]:
        """The keys that need to be allowed, with their values."""
        return {claim.key: claim.value for claim in self.claims if claim.effect}

    @property
    def digest(self) -> str:
        """The digest of everything that the project claims, for LOGIST_TRUST; it doesn't depend on the project's path."""
        return f"sha256:{_compute_digest(self._list_values())}"

    def _list_values(self) -> dict[str, Any]:
        return {claim.key: claim.value for claim in (*self.claims, *self.templates)}

    def require_to_run(self) -> None:
        """Raise InvalidFile unless the user has allowed what the project runs, sends and connects to.

        Includes merging if the config merges automatically: better to ask before the work is paid for.
        """
        merging = [Effect.MERGE] if self.merges else []
        self._require_allowed({Effect.RUN, Effect.SPEND, Effect.CALL_MORE, Effect.SHOW, *merging})

    def require_to_show_history(self) -> None:
        """Raise InvalidFile if the project shows past commits to agents, and the user has not allowed what it does."""
        if any(claim.path == HISTORY and claim.effect for claim in self.claims):
            self.require_to_run()

    def require_to_merge(self) -> None:
        """Raise InvalidFile unless the user has allowed what lets work be merged without a person."""
        self._require_allowed({Effect.MERGE})

    def add_templates(self, claims: Iterable[Claim]) -> Trust:
        """Return the same with claims of job templates (see `find_template_claims`)."""
        return replace(self, claims=(*self.claims, *claims))

    def require_template(self, claims: Iterable[Claim]) -> None:
        """Raise InvalidFile unless the user has allowed what a job template of the project sets."""
        self._require_allowed(set(Effect), tuple(claims))

    def is_allowed(self) -> bool:
        """Whether the user has allowed everything that needs it."""
        return not self._find_differences(set(Effect), self.claims)

    def allow_claims(self) -> None:
        """Record that the user allows everything of this project that needs it now, and nothing else."""
        digests = {key: _compute_digest(value) for key, value in self.powers.items()}
        self._update_record(lambda _: digests)

    def revoke_claims(self) -> None:
        """Remove everything that the user has allowed for this project."""
        self._update_record(lambda _: {})

    def allow_change(self, before: Iterable[Claim], path: FieldPath, file: str) -> None:
        """Record the values at and below one key that the user has just set in `file`, or removed.

        Only these: other changes in the same file, and values that another file sets below this key, still need
        permission. `before`: the claims before the change.
        """
        old = {claim.key for claim in before if _is_below(claim.path, path) and claim.file == file}
        new = {
            claim.key: _compute_digest(claim.value)
            for claim in self.claims
            if _is_below(claim.path, path) and claim.file == file
        }
        if old or new:
            self._update_record(lambda known: {key: known[key] for key in known if key not in old} | new)

    def _require_allowed(self, effects: set[Effect], claims: tuple[Claim, ...] | None = None) -> None:
        claims = self.claims if claims is None else claims
        if differences := self._find_differences(effects, claims):
            reasons = [f"{_join_keys(keys)} {reason}" for reason, keys in differences.items()]
            files = {
                claim.file for claim in claims if any(claim.key in each for each in differences.values())
            }
            raise InvalidFile(
                "; ".join(reasons),
                where=", ".join(sorted(files)) or str(self.home),
                fix=self._advise(),
            )

    def _advise(self) -> str:
        if self.trusted_digest is None:
            return "check it, then run: logist trust"
        return f"LOGIST_TRUST is set, but for other settings; check them, then set LOGIST_TRUST={self.digest}"

    def _find_differences(self, effects: set[Effect], claims: tuple[Claim, ...]) -> dict[str, list[str]]:
        """Return the keys of `claims` that differ from what the user has allowed, by the reason.

        Returns {} if no key has such an effect.
        """
        powers = [claim for claim in claims if claim.effect in effects]
        if not powers or self._is_digest_trusted(powers):
            return {}
        record = _read_records(self.user_config_dir).get(_get_record_key(self.home), {})
        if isinstance(record, str):
            return {OF_OLD: [claim.key for claim in powers]}
        claimed = {claim.key for claim in claims}
        new = [claim for claim in powers if claim.key not in record]
        changed = [
            claim for claim in powers if record.get(claim.key, "") not in ("", _compute_digest(claim.value))
        ]
        own_reasons = {Effect.SPEND: SPENDS, Effect.CALL_MORE: CALLS_MORE, Effect.SHOW: SHOWS}
        by_reason = {
            NEW: [claim.key for claim in new if claim.effect not in own_reasons],
            CHANGED: [claim.key for claim in changed if claim.effect not in own_reasons],
            **{
                reason: [claim.key for claim in (*new, *changed) if claim.effect is effect]
                for effect, reason in own_reasons.items()
            },
            # Templates are read only when one is used, and without one, no job is as it was.
            REMOVED: []
            if all(key.startswith(TEMPLATES) for key in claimed)
            else [
                key
                for key, digest in record.items()
                if key not in claimed and not key.startswith(TEMPLATES) and not self._is_kept(key, digest)
            ],
        }
        return {reason: keys for reason, keys in by_reason.items() if keys}

    def _is_kept(self, key: str, digest: str) -> bool:
        """Whether the project still sets the value that the user allowed, and it is now also the user's own."""
        return key in self.same_values and digest in ("", _compute_digest(self.same_values[key]))

    def _is_digest_trusted(self, powers: list[Claim]) -> bool:
        """Whether the user trusts the digest of everything that the project claims, and that includes these."""
        if self.trusted_digest is None or self.trusted_digest != self.digest:
            return False
        values = self._list_values()
        # A template may be used that the digest doesn't cover: the path of a file that another one overrides.
        return all(claim.key in values and values[claim.key] == claim.value for claim in powers)

    def _update_record(self, change: Callable[[Allowed], Allowed]) -> None:
        folder = self.user_config_dir
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_lock(folder / LOCK_FILE):
            records = _read_records(folder)
            before = records.pop(_get_record_key(self.home), {})
            after = change(before if isinstance(before, dict) else {})
            if after:
                records[_get_record_key(self.home)] = after
            new_file = folder / f".{TRUSTED_FILE}.new"
            new_file.write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", "utf-8")
            new_file.chmod(0o600)
            os.replace(new_file, folder / TRUSTED_FILE)


_CAN = "can run programs, reach other hosts, or merge work without asking you;"
NEW = f"{_CAN} you haven't allowed this yet"
CHANGED = f"{_CAN} this changed since you allowed it"
SPENDS = "allows to spend more than your own config does; you haven't allowed this yet"
CALLS_MORE = "allows more calls than your own config does; you haven't allowed this yet"
SHOWS = "lets agents read past commits, which may contain secrets that were removed later; you haven't allowed this yet"
REMOVED = "was removed since you allowed the rest of this config"
OF_OLD = f"{_CAN} you allowed it with an earlier version of Logist, which checked fewer keys"


def read_trust(
    user_config_dir: Path,
    home: Path,
    loaded: LoadedSettings,
    roles: Iterable[tuple[Role, Path]] = (),
    trusted_digest: str | None = None,
    templates: Iterable[Claim] = (),
) -> Trust:
    """Return the trust of a project with these settings.

    `roles`: the roles from its own role files, each with its file. `trusted_digest`: that of LOGIST_TRUST; with it,
    `templates` are the claims of its job templates.
    """
    config_claims, same_values = _find_config_claims(loaded)
    claims = (*config_claims, *_find_role_claims(loaded.settings, roles))
    merges = can_merge_automatically(loaded.settings)
    return Trust(user_config_dir, home, claims, merges, trusted_digest, tuple(templates), same_values)


def _find_config_claims(loaded: LoadedSettings) -> tuple[list[Claim], dict[str, Any]]:
    """Return the keys that a file of the project sets to a different value than without the project, and those with the
    same value.
    """
    claims: list[Claim] = []
    same_values: dict[str, Any] = {}
    if loaded.project_files.isdisjoint(loaded.sources.values()):
        return claims, same_values  # most projects set nothing, and looking at all settings takes 3 ms
    below = _collect_leaves(loaded.below.model_dump(mode="json"))
    limits_cost = any(limit.cost is not None for limit in loaded.below.budget.limits.values())
    for path, value in _collect_leaves(loaded.settings.model_dump(mode="json")).items():
        file = loaded.sources.get(".".join(path), "")
        if file not in loaded.project_files:
            continue
        if below.get(path, MISSING) == value:
            same_values[".".join(path)] = value
        elif not _is_harmless(path) or (limits_cost and _concerns_spending(path)):
            claims.append(Claim(path, value, file, _find_effect(path, value, loaded)))
    return claims, same_values


def _find_role_claims(settings: Settings, roles: Iterable[tuple[Role, Path]]) -> Iterable[Claim]:
    for role, file in roles:
        values = role.model_dump(mode="json", exclude_defaults=True)
        for name, value in values.items():
            has_harmless_model = name == "llm_model" and _is_harmless_model(value, settings)
            if name not in HARMLESS_IN_ROLES and not has_harmless_model:
                harmless = name == "agent" and _is_harmless_agent(value)
                yield Claim((f"roles/{role.name}", name), value, str(file), None if harmless else Effect.RUN)


def find_template_claims(name: str, data: Mapping[str, Any], file: str) -> list[Claim]:
    """Return the fields of a job template that let work be merged without a person, or into another repository.

    Harmless is a field that is only a placeholder, because the user gives its value.
    """
    merging: dict[str, Callable[[Any], bool]] = {
        "approval": lambda value: value not in ("end", "each", True),
        "review_mode": lambda value: value not in ("normal", "strict"),
        "auto_merge": lambda value: value is not False,
        "repo": lambda value: isinstance(value, str),
    }
    return [
        Claim((f"{TEMPLATES}{name}", key), data[key], file, Effect.MERGE)
        for key, can_merge in merging.items()
        if data.get(key) is not None and can_merge(data[key]) and not _is_placeholder(data[key])
    ]


def _is_placeholder(value: Any) -> bool:
    from logist.core.template import TemplateError  # noqa: PLC0415 - few commands look at a template
    from logist.core.template.names import find_only_path  # noqa: PLC0415

    try:
        return isinstance(value, str) and find_only_path(value) is not None
    except TemplateError:
        return False


def _is_harmless(path: FieldPath) -> bool:
    return any(
        len(pattern) == len(path)
        and all(part in ("*", name) for part, name in zip(pattern, path, strict=True))
        for pattern in HARMLESS
    )


def _concerns_spending(path: FieldPath) -> bool:
    """Whether a key is a budget, or can make calls look cheaper to budgets than they are."""
    match path:
        case ("budget", *_) | ("allow_unknown_price",):
            return True
        case ("models", _, field):
            return field == "price" or field in PRICES
    return False


def _find_effect(path: FieldPath, value: Any, loaded: LoadedSettings) -> Effect | None:
    """Return what a value can cause."""
    if path in SAFE_VALUES:
        safe, effect = SAFE_VALUES[path]
        return None if value in safe else effect
    match path:
        case ("agent",):
            return None if _is_harmless_agent(value) else Effect.RUN
        case ("on_stuck",) | ("notify", _):
            return Effect.RUN if value else None
        case ("review", "checks", name, field):
            return _find_check_effect(field, value, name, loaded.below)
        case ("rate_limits", name, field):
            return None if _is_stricter_rate(name, field, value, loaded.below) else Effect.CALL_MORE
        case _ if _concerns_spending(path):
            return None if _spends_no_more(path, value, loaded) else Effect.SPEND
    return None if _is_harmless_address(path, value, loaded.settings) else Effect.RUN


def _is_harmless_address(path: FieldPath, value: Any, settings: Settings) -> bool:
    """Whether a value sends prompts and keys only where they are sent without it, or keeps them on this machine."""
    match path:
        case ("model",) | ("review", "model"):
            return value is None or _is_harmless_model(value, settings)
        case ("providers", name, _):
            return _is_local_provider(name, settings)
        case ("models", name, field) if field in ADDRESS:
            return (field, value) == ("api_key_env", None) or _is_local_model(name, settings)
    return False


def _find_check_effect(field: str, value: Any, name: str, below: Settings) -> Effect | None:
    """Return what a value of a check can cause.

    Only overriding a check of the user's own config can have an effect on merging.
    """
    stricter = {"enabled": True, "severity": "error"}
    if field not in (*stricter, "command") or (field == "command" and value is not None):
        return Effect.RUN
    is_own = below.review.checks.get(name) != CHECKS.get(name)
    return Effect.MERGE if is_own and (field == "command" or value != stricter[field]) else None


def _spends_no_more(path: FieldPath, value: Any, loaded: LoadedSettings) -> bool:
    """Whether a value doesn't let calls cost more than the user's own budgets allow."""
    match path:
        case ("budget", *fields):
            return _is_stricter_budget(fields, value, loaded.below)
        case ("models", name, field):
            return _is_no_cheaper(name, field, value, loaded)
    return not value


def _is_no_cheaper(model: str, field: str, value: Any, loaded: LoadedSettings) -> bool:
    """Whether a price is at least the one in the user's own config, or calls of the model cost nothing anyway."""
    known = getattr(loaded.below.models.get(model), field, None)
    is_higher = isinstance(value, float) and isinstance(known, float) and value >= known
    return is_higher or _is_local_model(model, loaded.settings)


def _is_stricter_budget(fields: list[str], value: Any, below: Settings) -> bool:
    """Whether a value only limits more than the user's own config does."""
    match fields:
        case ["limits", name, field]:
            own = below.budget.limits.get(name)
            if own is None:
                return True  # one more budget; those of the user apply too
            known = getattr(own, field, None)
            is_amount = field in ("cost", "tokens", "calls")
            return is_amount and value is not None and (known is None or value <= known)
        case ["timezone"]:
            return not below.budget.limits  # else the project could move the days of the user's budgets
    return True


def _is_stricter_rate(name: str, field: str, value: Any, below: Settings) -> bool:
    """Whether a value allows no more calls than the user's own config does."""
    known = getattr(below.rate_limits.get(name), field, None)
    return known is None or (value is not None and value <= known)


def _is_harmless_agent(name: str) -> bool:
    return name in ("model", "litellm") or name.startswith("scripted:")


def _is_harmless_model(name: str, settings: Settings) -> bool:
    """Whether a name only chooses among models and providers that are allowed, or need permission themselves."""
    return "/" not in name or has_known_address(settings, name)


def _is_local_provider(name: str, settings: Settings) -> bool:
    """Whether prompts for a provider stay on this machine, and it gets no key."""
    entry = settings.providers[name]
    return entry.api_key_env is None and _find_host(entry.base_url) in THIS_MACHINE


def _is_local_model(name: str, settings: Settings) -> bool:
    """Whether prompts and key of a model stay on this machine.

    The name of a model can contain an address too.
    """
    model = settings.models[name]
    return _find_host(model.endpoint or "") in THIS_MACHINE and "//" not in model.provider_model


def _find_host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _collect_leaves(data: Mapping[str, Any], above: FieldPath = ()) -> dict[FieldPath, Any]:
    """Return every value that is not a mapping, by its path."""
    leaves: dict[FieldPath, Any] = {}
    for key, value in data.items():
        path = (*above, key)
        leaves |= _collect_leaves(value, path) if isinstance(value, dict) and value else {path: value}
    return leaves


def _is_below(path: FieldPath, above: FieldPath) -> bool:
    return path[: len(above)] == above


def _join_keys(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _read_records(user_config_dir: Path) -> dict[str, Allowed | str]:
    """Read what is allowed, by project; a file that can't be read, or belongs to another user, counts as empty.

    An earlier version stored one digest for each project, as text.
    """
    path = user_config_dir / TRUSTED_FILE
    try:
        if os.lstat(path).st_uid not in (os.geteuid(), 0):
            return {}
        known = json.loads(documents.read_content(path))
    except (OSError, ValueError, RecursionError, LogistError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {place: record for place, record in known.items() if isinstance(record, dict | str)}


def _get_record_key(home: Path) -> str:
    return os.path.realpath(home)


def _compute_digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return compute_sha256(text.encode("utf-8", "surrogatepass"))
