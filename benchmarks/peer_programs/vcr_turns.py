"""VCR.py over httpx: requests played back from a cassette of SIZE responses; for `append`, one more response is saved."""

import json
from pathlib import Path

import httpx
import vcr
from measuring import PROMPT, RECORD, TEXT, measure_turns, read_arguments
from vcr.cassette import Cassette
from vcr.request import Request

wanted = read_arguments()
FILE = Path("cassette.json").absolute()
recorder = vcr.VCR(serializer="json", match_on=["method", "uri", "body"], record_mode="none")
ADDRESS = "http://127.0.0.1:9/v1/chat/completions"


def build_body(number: int) -> str:
    return json.dumps({"messages": [{"role": "user", "content": f"{PROMPT} {number}"}]})


def build_response(text: str) -> dict:
    return {
        "status": {"code": 200, "message": "OK"},
        "headers": {"content-type": ["application/json"]},
        "body": {"string": json.dumps({"content": text}).encode()},
    }


def add(cassette: Cassette, number: int, text: str) -> None:
    cassette.append(Request("POST", ADDRESS, build_body(number), {}), build_response(text))


if not FILE.exists():
    with recorder.use_cassette(str(FILE), record_mode="new_episodes") as cassette:
        for number in range(wanted.size):
            add(cassette, number, TEXT)


def play_all() -> None:
    """Each request is answered from the cassette."""
    with recorder.use_cassette(str(FILE)), httpx.Client() as client:
        for number in range(wanted.size):
            assert client.post(ADDRESS, content=build_body(number)).json()["content"] == TEXT


def append_one() -> None:
    """What a recorded response costs if it must be in the file: the cassette is written when it is closed."""
    with recorder.use_cassette(str(FILE), record_mode="new_episodes") as cassette:
        add(cassette, len(cassette), RECORD)


measure_turns(play_all if wanted.what == "replay" else append_one, wanted.runs)
