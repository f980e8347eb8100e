"""llm (PyPI): one exchange without tools; its answer is all of its work."""

from __future__ import annotations

import json

from logist.agents.programs import reach
from logist.agents.programs.output import find_document, get_at_path, read_count, text_of
from logist.agents.programs.protocol import Finished, Invocation, Result, Run, Spent
from logist.agents.programs.trouble import Heard, build_result

MODEL = "logist"


class Llm:
    """The program `llm`."""

    name = "llm"
    executable = "llm"
    metered = True

    def invocation(self, run: Run) -> Invocation:
        """Build the `llm -m` call, with a model definition that points to the
        endpoint, and the key in a file.
        """
        model = {
            "model_id": MODEL,
            "model_name": reach.strip_provider(run.model),
            "api_base": reach.resolve_openai_address(run, self.name),
            "api_key_name": MODEL,
        }
        key = json.dumps({MODEL: reach.resolve_key(run, self.name)})
        known = run.model.endpoint or reach.get_provider(run.model) != "openai"  # llm has another name for it
        limit = ("-o", "max_tokens", str(run.model.max_output_tokens)) if known else ()
        return Invocation(
            argv=("llm", "-m", MODEL, *limit, "--no-log", "-u", "--json"),
            environment={
                "LLM_USER_PATH": str(run.home / "llm"),
                # Otherwise the error for a refused connection is the same as for a broken one.
                "LLM_OPENAI_SHOW_RESPONSES": "1",
            },
            stdin=run.prompt.encode("utf-8", "replace"),
            files={
                "llm/extra-openai-models.yaml": json.dumps([model]).encode(),  # valid JSON is also valid YAML
                "llm/keys.json": key.encode(),
            },
        )

    def read(self, finished: Finished) -> Result:
        """Return the response, its tokens, and why the model stopped, which only
        the full response contains.
        """
        output = find_document(finished.stdout)
        answer = get_at_path(output, "0") if isinstance(output, list) else output
        if not isinstance(answer, dict):
            error = finished.stderr.rpartition("\nError: ")[2]
            return build_result(finished, Heard(failure=text_of(error)) if finished.status else Heard())
        read, written = read_count(answer.get("input_tokens")), read_count(answer.get("output_tokens"))
        cached = read_count(get_at_path(answer, "response_json.usage.prompt_tokens_details.cached_tokens"))
        heard = Heard(
            text=text_of(answer.get("response")),
            cut=get_at_path(answer, "response_json.choices.0.finish_reason") == "length",
            spent=Spent(max(0, read - cached), cached, written) if read or written else None,
            session=text_of(answer.get("conversation_id")),
        )
        return build_result(finished, heard)
