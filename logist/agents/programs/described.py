"""A program that the user describes in the config."""

from __future__ import annotations

from collections.abc import Mapping

from logist.agents.programs import reach
from logist.agents.programs.output import (
    dollars_to_microcents,
    find_document,
    get_at_path,
    iter_events,
    last_lines,
    parse_json,
    read_count,
    strip_controls,
    text_of,
)
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result
from logist.config.programs import PLACEHOLDER, ProgramEntry
from logist.errors import InvalidFile
from logist.quick_dataclass import dataclass

PROMPT = "prompt.txt"
LONGEST_ARGUMENT = 120_000
"""Bytes; Linux limits a single argument to 128 KiB."""


@dataclass
class Described:
    """An agent program from `agents: {NAME: {...}}` in config.yaml."""

    name: str
    entry: ProgramEntry

    def __post_init__(self) -> None:
        self.executable, self.metered = self.entry.argv[0], self.entry.metered

    def invocation(self, run: Run) -> Invocation:
        """Fill in the templates. Raises InvalidFile if the program can't get
        the model's endpoint or key.
        """
        entry, values = self.entry, self._build_values(run)
        prompt = run.prompt.encode("utf-8", "replace")
        more = {"read": entry.read_only_argv, "edit": entry.edit_argv, "full": entry.full_argv}[run.profile]
        argv = [_fill_template(word, values) for word in (*entry.argv, *more)]
        if entry.prompt == "argument":
            argv = self._append_prompt((*entry.argv, *more), values, prompt)
        key = self._choose_key(run)
        environment = {name: _fill_template(text, values) for name, text in entry.environment.items()}
        if entry.pass_key_as and key:
            environment[entry.pass_key_as] = key
        files = {
            name: _fill_template(text, {**values, "key": key}).encode("utf-8", "replace")
            for name, text in entry.files.items()
        }
        if entry.prompt == "file":
            files[PROMPT] = prompt
        kept = (*entry.results, *([entry.read_from] if entry.read_from else []))
        stdin = prompt if entry.prompt == "stdin" else b""
        return Invocation(tuple(argv), environment, stdin, files, tuple(dict.fromkeys(kept)))

    def read(self, finished: Finished) -> Result:
        """Read the fields at the paths in the entry; for plain text, only the exit status shows
        a failure.
        """
        entry = self.entry
        output = finished.files.get(entry.read_from, "") if entry.read_from else finished.stdout
        if entry.output == "text":
            return build_result(finished, Heard(text=strip_controls(output).strip(), status_counts=True))
        answer = self._select_document(output)
        failure = get_at_path(answer, entry.error) if entry.error else None
        text = text_of(get_at_path(answer, entry.text or ""))
        if not failure and not text and finished.how == "exited" and not finished.status:
            failure = self._explain_missing_text(answer, output)
        heard = Heard(
            text=text,
            failure=None if failure in (None, False, "", [], {}) else text_of(failure) or str(failure)[:500],
            status_counts=not entry.error,
            spent=self._read_usage(answer),
            reported_microcents=dollars_to_microcents(get_at_path(answer, entry.cost))
            if entry.cost
            else None,
            session=text_of(get_at_path(answer, entry.session)) if entry.session else None,
        )
        return build_result(finished, heard)

    def _select_document(self, output: str) -> object:
        if self.entry.output == "json":
            json_document = find_document(output)
            return parse_json(output) if json_document is None else json_document
        lines = (
            event
            for event in iter_events(output)
            if all(get_at_path(event, path) == value for path, value in self.entry.where.items())
        )
        return next(iter(list(lines)[-1:]), None)

    def _explain_missing_text(self, answer: object, output: str) -> str | None:
        if answer is not None:
            return f"its output has no text at `{self.entry.text}` (agents.{self.name}.text)"
        wanted = "JSON" if self.entry.output == "json" else "a line of JSON that fits"
        return f"its output is not {wanted}: {last_lines(output, 200)}" if output.strip() else None

    def _read_usage(self, said: object) -> Spent | None:
        paths = self.entry.usage
        if paths is None or not any(
            isinstance(get_at_path(said, path), int) for path in (paths.input, paths.output)
        ):
            return None
        read, written = (
            read_count(get_at_path(said, paths.input)),
            read_count(get_at_path(said, paths.output)),
        )
        cached = read_count(get_at_path(said, paths.cached)) if paths.cached else 0
        return Spent(max(0, read - cached) if paths.cached_in_input else read, cached, written)

    def _build_values(self, run: Run) -> dict[str, str]:
        used = {name for text in self.entry.list_texts() for name in PLACEHOLDER.findall(text)}
        if run.model.endpoint and "endpoint" not in used:
            reason = "its config has no {endpoint}, so it would use a public API"
            raise reach.make_unreachable_error(run.model, self.name, reason)
        if not run.model.endpoint and "endpoint" in used:
            raise reach.make_unreachable_error(
                run.model, self.name, "its config has {endpoint}, but the model has no `endpoint`"
            )
        return {
            "model": reach.strip_provider(run.model),
            "provider_model": run.model.provider_model,
            "workspace": str(run.workspace),
            "home": str(run.home),
            "endpoint": (run.model.endpoint or "").rstrip("/"),
            "name": run.name,
            "prompt_file": str(run.home / PROMPT),
        }

    def _choose_key(self, run: Run) -> str:
        wanted = self.entry.pass_key_as or any("{key}" in text for text in self.entry.files.values())
        return reach.resolve_key(run, self.name) if wanted else ""

    def _append_prompt(self, words: tuple[str, ...], values: Mapping[str, str], prompt: bytes) -> list[str]:
        if len(prompt) > LONGEST_ARGUMENT:
            message = f"the prompt is too long for a command-line argument: {len(prompt):,} bytes"
            raise InvalidFile(
                message, where=f"config.yaml: agents.{self.name}", fix="use `prompt: file` or `prompt: stdin`"
            )
        text = prompt.decode("utf-8").replace("\0", "")
        values = {**values, "prompt": text}
        filled = [_fill_template(word, values) for word in words]
        return filled if any("{prompt}" in word for word in words) else [*filled, text]


def _fill_template(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders in one pass, so that braces in a value have no effect."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
