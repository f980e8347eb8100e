"""A model on 127.0.0.1 that answers slowly, so that a person can watch an agent at work."""

from __future__ import annotations

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORD_SECONDS = 0.6
"""Between two words of the answer."""
WAIT_SECONDS = 30.0
_TEXT = (
    "I will look at how the search works now. It reads every article for each word, so the time grows with the number "
    "of words. An index from each word to the articles with that word needs to be built only once. I will write it so "
    "that a changed article is seen at once, and add a test for that. "
)


class SlowModel:
    """Answers chat completions, a word at a time, for as long as it runs; listens inside `with`."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._asked = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))

    @property
    def url(self) -> str:
        """The address for `endpoint`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> SlowModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for_request(self) -> None:
        """Wait until an agent has asked, but not for ever."""
        self._asked.wait(WAIT_SECONDS)

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        closing, asked = self._closing, self._asked

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                asked.set()
                try:
                    for word in itertools.cycle(_TEXT.split()):
                        self.wfile.write(_build_event(f"{word} "))
                        self.wfile.flush()
                        if closing.wait(WORD_SECONDS):
                            return
                except ConnectionError:
                    return  # the agent was ended

        return Handler


def _build_event(words: str) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": {"content": words}, "finish_reason": None}
    event = {"id": "example", "object": "chat.completion.chunk", "created": 0, "choices": [choice]}
    return f"data: {json.dumps(event)}\n\n".encode()
