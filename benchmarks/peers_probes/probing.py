"""What the probes share: a paid call by plain HTTP, and the choice of what to do. Only the standard library is needed.

A probe is a small program that runs in the environment of one peer, in an empty directory, and uses it as its documentation
says. It is called with a verb: `run URL` makes two paid calls after each other, `resume URL` continues that after a kill;
`save` saves until it is killed, and prints the number of each save when the peer says that it is saved; `read` opens what
was saved, continues it, and prints how many saves it finds; `add NUMBER` makes one change of what others change at the same
time, and `count` prints how many changes there are.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable

TEXT = "x" * 1000
"""What is saved each time."""


def call_model(url: str, which: str) -> str:
    """Make the paid call `which`, first or second, and return its answer."""
    body = {"model": "m", "messages": [{"role": "user", "content": f"the {which} call"}]}
    headers = {"content-type": "application/json", "authorization": "Bearer dummy"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def report(number: int) -> None:
    """Tell the benchmark that save `number` is done, at once."""
    print(number, flush=True)


def tell(kept: int) -> None:
    """Tell the benchmark how many saves or changes there are."""
    print("kept", kept, flush=True)


def choose(**verbs: Callable[..., object]) -> None:
    """Do what the command line says."""
    verbs[sys.argv[1]](*sys.argv[2:])
