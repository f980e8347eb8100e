"""Makes the sessions in fixtures/sessions again: runs the real programs against a scripted model on 127.0.0.1.

    python -m tests.sessions.make_captures --agents DIRECTORY [claude|codex|mini] [CASE ...]

DIRECTORY has the programs as `tests/torture/agent_bench.py` installs them. Each runs in bubblewrap, in an empty home
`/home/dev`, so no path of this machine gets into a session. Long texts of the vendors (system prompts and the like)
are cut: they are not ours to publish, and `logist adopt` doesn't need them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.endpoint import Endpoint
from tests.support import ROOT

FIXTURES = ROOT / "fixtures" / "sessions"
KEY = "dummy-key-for-tests-0001"
SHOP = "/home/dev/shop"
LONGEST = 300
"""Characters that a text of a vendor keeps."""
CUT = " ... (cut for the fixture)"
DEADLINE = 90.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Start:
    """One start of the program."""

    prompt: str
    more: tuple[str, ...] = ()
    kill_after: int = 0
    """End it with SIGTERM after so many answers of the model."""


@dataclass(frozen=True)
class Case:
    """One capture."""

    name: str
    starts: tuple[Start, ...]
    steps: tuple[Json, ...]


def _text(text: str, **more: Any) -> Json:
    return {"text": text, "usage": {"input": 1200, "cached": 200, "output": 60}, **more}


def _tool(name: str, arguments: Json | str, text: str = "") -> Json:
    return _text(text, calls=[{"tool": [name, arguments]}])


def _shell(line: str, text: str = "") -> Json:
    return _text(text, calls=[{"shell": line}])


DONE = _text("Done.")
EXIT = '```json\n{"action": "COMPLETED", "evidence_files": ["hello.txt"], "summary_for_supervisor": "greets"}\n```'
UNICODE = "Grüße aus Łódź, 東京, \N{GREEK SMALL LETTER PI} and \N{GRINNING FACE}: done."
SECRET = "sk-proj-" + "A1b2C3d4E5f6G7h8I9j0" * 2


def _common() -> Iterator[Case]:
    """Yield what every program can do."""
    once = Start("Greet the customers.")
    again = Start("Now greet them in French.", ("resume",))
    yield Case("plain", (once,), (_text("Hello, customers."),))
    yield Case("shell", (once,), (_shell("echo hello > hello.txt && cat hello.txt"), DONE))
    yield Case("failing_tool", (once,), (_shell("cat missing.txt"), _text("The file is missing.")))
    yield Case(
        "several_turns",
        (once,),
        (_shell("ls"), _shell("cat shop.py", "Let me look."), _shell("date -u -d @0"), DONE),
    )
    two = {"calls": [{"shell": "echo one"}, {"shell": "echo two"}]}
    yield Case("two_calls_at_once", (once,), (_text("", **two), DONE))
    yield Case(
        "unicode",
        (Start("Grüße die Kunden in 東京."),),
        (_shell("echo 'Łódź 東京' > grüße.txt"), _text(UNICODE)),
    )
    yield Case("long_output", (once,), (_shell("seq 1 2000"), _text("Many lines.")))
    yield Case("long_answer", (once,), (_text("A line of the answer.\n" * 200),))
    yield Case("thinking", (once,), (_text("Hello.", thought="The customers want a greeting."),))
    yield Case("server_error", (once,), ({"status": 500, "message": "overloaded"},))
    yield Case("bad_request", (once,), ({"status": 400, "message": "the prompt is too long"},))
    yield Case("refused_key", (once,), ({"status": 401, "message": "invalid key"},))
    yield Case(
        "interrupted", (Start("Greet the customers.", (), 2),), (_shell("ls"), {"text": "late", "delay": 30})
    )
    yield Case("killed_in_a_tool", (Start("Greet the customers.", (), 1),), (_shell("sleep 30"), DONE))
    yield Case(
        "cut_stream", (once,), (_shell("ls"), _text("Half an answer that never ends.", close="middle"))
    )
    yield Case("cut_answer", (once,), (_text("It stops at the", cut=True), DONE))
    yield Case("exit_command", (once,), (_shell("echo hello > hello.txt"), _text(EXIT)))
    yield Case("secret", (once,), (_shell(f"echo TOKEN={SECRET}"), _text(f"The token is {SECRET}.")))
    yield Case("long_prompt", (Start("Greet the customers, one by one. " * 40),), (DONE,))
    yield Case("resumed", (once, again), (_shell("echo hello > hello.txt"), DONE, _text("Bonjour.")))
    yield Case(
        "resumed_twice", (once, again, again), (DONE, _shell("ls"), _text("Bonjour."), _text("Salut."))
    )
    yield Case("resumed_after_error", (once, again), ({"status": 400, "message": "no"}, _text("Bonjour.")))
    yield Case("two_sessions", (once, Start("Say goodbye.")), (_text("Hello."), _text("Goodbye.")))


def _of_claude() -> Iterator[Case]:
    once, place = Start("Greet the customers."), f"{SHOP}/shop.py"
    edit = {"file_path": place, "old_string": "hello", "new_string": "good day"}
    yield Case("read", (once,), (_tool("Read", {"file_path": place}), DONE))
    yield Case("edit", (once,), (_tool("Read", {"file_path": place}), _tool("Edit", edit), DONE))
    yield Case("edit_unread", (once,), (_tool("Edit", edit), _text("I must read it first.")))
    create = {"file_path": f"{SHOP}/hello.txt", "content": "hello\n"}
    yield Case("create", (once,), (_tool("Write", create), DONE))
    overwrite = {"file_path": place, "content": "greeting = 'hi'\n"}
    yield Case("overwrite", (once,), (_tool("Read", {"file_path": place}), _tool("Write", overwrite), DONE))
    plan = Start("Greet the customers.", ("--permission-mode", "dontAsk"))
    yield Case("refused_tool", (plan,), (_tool("Write", create), _text("I may not write.")))
    yield Case("refused_shell", (plan,), (_tool("Bash", {"command": "rm -rf build"}), _text("I may not.")))
    yield Case("unknown_tool", (once,), (_tool("Teleport", {"to": "Mars"}), _text("There is no such tool.")))
    yield Case("wrong_arguments", (once,), (_tool("Read", {"path": 7}), _text("Wrong arguments.")))
    task = {
        "description": "count lines",
        "prompt": "Count the lines of shop.py.",
        "subagent_type": "general-purpose",
    }
    steps = (_tool("Agent", task), _shell("wc -l shop.py"), _text("Two lines."), _text("It has two lines."))
    yield Case("subagent", (once,), steps)
    yield Case("image", (once,), (_tool("Read", {"file_path": f"{SHOP}/dot.png"}), _text("A red dot.")))
    compact = Start("/compact", ("resume",))
    yield Case(
        "compacted",
        (once, compact, Start("Go on.", ("resume",))),
        (_text("Hello."), _text("<summary>Greeted.</summary>"), _text("More.")),
    )
    yield Case("turn_limit", (Start("Greet.", ("--max-turns", "1")),), (_shell("ls"), DONE))
    yield Case(
        "forked", (once, Start("Another way.", ("resume", "--fork-session"))), (_text("Hello."), _text("Hi."))
    )


def _of_codex() -> Iterator[Case]:
    once = Start("Greet the customers.")
    add = "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n"
    update = "*** Begin Patch\n*** Update File: shop.py\n@@\n-greeting = 'hello'\n+greeting = 'good day'\n*** End Patch\n"
    delete = "*** Begin Patch\n*** Delete File: shop.py\n*** End Patch\n"
    yield Case("patch_add", (once,), (_tool("apply_patch", add), DONE))
    yield Case("patch_update", (once,), (_tool("apply_patch", update), DONE))
    yield Case("patch_delete", (once,), (_tool("apply_patch", delete), DONE))
    yield Case("patch_in_shell", (once,), (_shell(f"apply_patch <<'EOF'\n{add}EOF"), DONE))
    yield Case(
        "failed_patch",
        (once,),
        (_tool("apply_patch", update.replace("hello", "other")), _text("It does not fit.")),
    )
    plan = {"plan": [{"step": "greet", "status": "in_progress"}]}
    yield Case("plan", (once,), (_tool("update_plan", plan), DONE))
    yield Case(
        "read_only",
        (Start("Greet.", ("--read-only",)),),
        (_shell("echo hello > hello.txt"), _text("I may not write.")),
    )
    yield Case("image", (once,), (_tool("view_image", {"path": f"{SHOP}/dot.png"}), _text("A red dot.")))
    yield Case("unknown_tool", (once,), (_tool("teleport", {"to": "Mars"}), _text("There is no such tool.")))


def _of_mini() -> Iterator[Case]:
    once = Start("Greet the customers.")
    yield Case("read", (once,), (_shell("cat shop.py"), DONE))
    yield Case("edit", (once,), (_shell("sed -i s/hello/hi/ shop.py"), DONE))
    yield Case("heredoc", (once,), (_shell("cat > hello.txt <<'EOF'\nhello\nEOF"), DONE))
    yield Case("delete", (once,), (_shell("rm shop.py"), DONE))
    yield Case("step_limit", (Start("Greet.", ("-c", "agent.step_limit=2")),), (_shell("ls"),))
    yield Case("unknown_tool", (once,), (_tool("teleport", {"to": "Mars"}), DONE))


SUBMIT = "cat <<'END'\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n{}\nEND"


def list_cases(program: str) -> list[Case]:
    """List the captures of a program."""
    more = {"claude": _of_claude, "codex": _of_codex, "mini": _of_mini}[program]()
    cases = [*_common(), *more]
    if program != "mini":
        return cases
    ended = []
    for case in cases:  # mini can't resume, and ends only by a command that submits
        if any("resume" in start.more for start in case.starts):
            continue
        steps = tuple(
            step
            if step.get("calls") or "status" in step
            else step | {"calls": [{"shell": SUBMIT.format(step["text"])}]}
            for step in case.steps
        )
        ended.append(Case(case.name, case.starts, steps))
    return ended


def _build_command(program: str, start: Start, base: str, session: str | None) -> tuple[list[str], Json]:
    more = [each for each in start.more if each not in ("resume", "--read-only")]
    if program == "claude":
        resume = ["--resume", session or ""] if "resume" in start.more else []
        safe = [] if "--permission-mode" in more else ["--dangerously-skip-permissions"]
        argv = [
            "claude/node_modules/.bin/claude",
            "-p",
            "--output-format",
            "json",
            "--model",
            "claude-sonnet-4-5",
        ]
        names = ("DEFAULT_HAIKU", "DEFAULT_SONNET", "DEFAULT_OPUS", "SMALL_FAST")
        other = {f"ANTHROPIC_{name}_MODEL": "claude-sonnet-4-5" for name in names}
        environment = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": KEY, "IS_SANDBOX": "1"} | other
        environment |= {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "1"}
        environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return ["npm/" + argv[0], *argv[1:], *safe, *more, *resume, start.prompt], environment
    if program == "codex":
        settings = {
            "model_provider": "local",
            "model_providers.local.name": "local",
            "model_providers.local.env_key": "LOCAL_KEY",
            "model_providers.local.wire_api": "responses",
            "model_providers.local.base_url": f"{base}/v1",
            "model_providers.local.request_max_retries": 0,
            "model_providers.local.stream_max_retries": 0,
            "web_search": "disabled",
            "analytics.enabled": False,
            "check_for_update_on_startup": False,
        }
        argv = ["npm/codex/node_modules/.bin/codex", "exec"]
        mode = (
            ["-s", "read-only"]
            if "--read-only" in start.more
            else ["--dangerously-bypass-approvals-and-sandbox"]
        )
        argv += ["--json", "--skip-git-repo-check", *mode, "-m", "gpt-5-codex"]
        for name, value in settings.items():
            argv += ["-c", f"{name}={json.dumps(value)}"]
        for feature in ("unbounded_connection_retries", "plugins", "remote_plugin", "apps", "skill_search"):
            argv += ["--disable", feature]
        argv += ["resume", "--last"] if "resume" in start.more else []
        return [*argv, start.prompt], {"CODEX_HOME": "/home/dev/.codex", "LOCAL_KEY": KEY}
    environment = {"OPENAI_API_BASE": f"{base}/v1", "OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": KEY}
    environment |= {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
    }
    environment |= {"MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1"}
    environment |= {"MSWEA_GLOBAL_CONFIG_DIR": "/home/dev/mini", "_TYPER_STANDARD_TRACEBACK": "1"}
    out = f"/home/dev/out/{int(time.time() * 1000)}.traj.json"
    argv = ["pip/mini/bin/python", "/opt/agents/pip/mini/bin/mini", "-m", "openai/gpt-4o-mini", "-y"]
    argv += ["--exit-immediately", "-o", out, "-c", "mini.yaml", *more, "-t", start.prompt]
    return argv, environment


def _run(program: str, case: Case, agents: Path, home: Path) -> list[Path]:
    for name in ("shop", "out", ".codex", "mini"):
        (home / name).mkdir()
    (home / "shop" / "shop.py").write_text("greeting = 'hello'\nprint(greeting)\n", encoding="utf-8")
    (home / "shop" / "dot.png").write_bytes(bytes.fromhex(DOT))
    session: str | None = None
    with Endpoint(*case.steps, workspace=SHOP) as endpoint:
        for start in case.starts:
            answered = len(endpoint.requests)
            argv, environment = _build_command(program, start, endpoint.base, session)
            wrap = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
            wrap += ["--tmpfs", "/opt", "--ro-bind", str(agents), "/opt/agents", "--tmpfs", "/home"]
            wrap += [
                "--bind",
                str(home),
                "/home/dev",
                "--chdir",
                SHOP,
                "--unshare-pid",
                "--die-with-parent",
                "--clearenv",
            ]
            environment |= {
                "HOME": "/home/dev",
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "USER": "dev",
            }
            for name, value in environment.items():
                wrap += ["--setenv", name, value]
            process = subprocess.Popen(
                [*wrap, f"/opt/agents/{argv[0]}", *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            _wait(process, endpoint, answered, start)
            output, _ = process.communicate(timeout=DEADLINE)
            (home / "last-output").write_bytes(output)
            session = _read_session(output) or session
    return _find_sessions(program, home)


def _wait(process: subprocess.Popen[bytes], endpoint: Endpoint, answered: int, start: Start) -> None:
    end = time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < end:
        if start.kill_after and endpoint.taken >= start.kill_after:
            time.sleep(2)
            break
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.terminate()


def _read_session(output: bytes) -> str | None:
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("session_id"), str):
            return str(found["session_id"])
    return None


def _find_sessions(program: str, home: Path) -> list[Path]:
    roots = {
        "claude": (".claude/projects", "*.jsonl"),
        "codex": (".codex/sessions", "*.jsonl"),
        "mini": ("out", "*.json"),
    }
    root, pattern = roots[program]
    return sorted((home / root).rglob(pattern))


def _save(program: str, case: Case, sessions: list[Path], home: Path) -> None:
    target = FIXTURES / program / case.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for session in sessions:
        place = target / (
            session.relative_to(home / ".claude/projects") if program == "claude" else session.name
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        text = session.read_text(encoding="utf-8")
        if program == "mini":
            place.write_text(
                json.dumps(_shorten(json.loads(text)), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
            )
            continue
        lines = (
            json.dumps(_shorten(json.loads(line)), ensure_ascii=False, separators=(",", ":"))
            for line in text.splitlines()
        )
        place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


VENDOR = frozenset({"system", "developer"})
VENDOR_FIELDS = frozenset(
    {
        "base_instructions",
        "user_instructions",
        "system_template",
        "instance_template",
        "developer_instructions",
        "dynamic_tools",
        "environment_context",
        "attachment",
    }
)
VENDOR_FIELDS_OF_MINI = frozenset({"observation_template", "format_error_template", "env"})


def _shorten(value: Any, *, vendor: bool = False) -> Any:
    """The value with the texts of vendors cut."""
    if isinstance(value, str):
        return value[:LONGEST] + CUT if vendor and len(value) > LONGEST else value
    if isinstance(value, list):
        kept = value[:3] if vendor and len(value) > 3 else value
        return [_shorten(each, vendor=vendor) for each in kept]
    if isinstance(value, dict):
        is_vendor = vendor or value.get("role") in VENDOR
        return {
            key: CUT.strip()[4:]
            if key == "traceback"
            else _shorten(each, vendor=is_vendor or key in VENDOR_FIELDS | VENDOR_FIELDS_OF_MINI)
            for key, each in value.items()
        }
    return value


DOT = (
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f"
    "0005000 1ff89993d1d0000000049454e44ae426082".replace(" ", "")
)


def main() -> None:
    """Make the captures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=Path, required=True)
    parser.add_argument("program", choices=("claude", "codex", "mini"))
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    for case in list_cases(options.program):
        if options.cases and case.name not in options.cases:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            home = Path(scratch)
            sessions = _run(options.program, case, options.agents.resolve(), home)
            if sessions:
                _save(options.program, case, sessions, home)
            else:
                output = (home / "last-output").read_bytes()[-300:]
                sys.stderr.write(f"{options.program}/{case.name}: no session: {output!r}\n")
        sys.stdout.write(f"{options.program}/{case.name}: {len(sessions)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
