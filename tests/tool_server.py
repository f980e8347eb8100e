"""MCP servers as scripts: one of the SDK, and one of the standard library that behaves badly on request."""

from __future__ import annotations

import json
import sys
from pathlib import Path

SDK_SERVER = '''
from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def lookup(word: str) -> str:
    """Looks a word up in the glossary."""
    open("looked-up.txt", "a").write(word + "\\n")
    return f"{word}: a kind of bird"


@server.tool(name="bad.name")
def bad_name() -> str:
    """Has a name that no provider accepts."""
    return ""


server.run()
'''

BARE_SERVER = """
import json, os, signal, subprocess, sys, time

mode = sys.argv[1]


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(text="done", **more):
    say(id=2, result={"content": [{"type": "text", "text": text}], **more})


def hear():
    return json.loads(sys.stdin.readline())


hello = hear()
if mode == "never ready":
    time.sleep(1000)
if mode == "no start":
    say(id=hello["id"], error={"code": -1, "message": "not today"})
    sys.exit()
if mode == "noise":
    print("Welcome!\\n{not json\\n[1]\\n" + "[" * 5000, flush=True)
say(id=hello["id"], result={"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}})
assert hear()["method"] == "notifications/initialized"
request = hear()
if mode in ("good", "noise"):
    answer(json.dumps(request["params"]))
elif mode == "hangs":
    time.sleep(1000)
elif mode == "dies":
    print("first\\nout of memory", file=sys.stderr, flush=True)
    sys.exit(3)
elif mode == "huge line":
    sys.stdout.write('{"jsonrpc": "2.0", "id": 2, "result": "' + "x" * (50 << 20))
    sys.stdout.flush()
elif mode == "huge lines":
    for _ in range(50 << 10):
        print("x" * 1023, flush=True)
elif mode == "chatty":
    while True:
        say(method="notifications/progress", params={})
elif mode == "children":
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    answer(str(child.pid))
elif mode == "stays":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answer("before I stay")
    time.sleep(1000)
elif mode == "asks":
    replies = []
    for number, method in enumerate(["sampling/createMessage", "elicitation/create", "roots/list", "ping"]):
        say(id=f"s{number}", method=method, params={})
        replies.append(hear())
    answer(json.dumps(replies))
elif mode == "refuses":
    say(id=2, error={"code": -32602, "message": "no such tool"})
elif mode == "error":
    answer("it rained", isError=True)
elif mode == "parts":
    parts = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, 7, {"type": "resource", "resource": {"text": "inside"}}]
    say(id=2, result={"content": parts})
elif mode == "structured":
    say(id=2, result={"content": [], "structuredContent": {"sum": 3}})
elif mode == "secret":
    answer("the key is hunter2-hunter2-hunter2")
sys.stdin.read()
"""


def write_noter(home: Path, *, tools: list[dict[str, object]] | None = None) -> None:
    """Write the role Noter, with the server of the SDK, into the `.logist` directory `home`."""
    programs = home / "servers"
    programs.mkdir(parents=True, exist_ok=True)
    (programs / "notes.py").write_text(SDK_SERVER, "utf-8")
    (home / "config.yaml").write_text(json.dumps({"sandbox": {"readable": [str(programs)]}}), "utf-8")
    server: dict[str, object] = {"command": [sys.executable, str(programs / "notes.py")]}
    if tools is not None:
        server["tools"] = tools
    role = {"name": "Noter", "base": "Worker", "mcp_servers": {"notes": server}}
    (home / "roles").mkdir(exist_ok=True)
    (home / "roles" / "Noter.yaml").write_text(json.dumps(role), "utf-8")
