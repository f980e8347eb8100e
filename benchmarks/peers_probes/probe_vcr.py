"""VCR.py: two calls in one cassette, as a test records them; and one cassette that grows by a call each time."""

import vcr
from probing import call_model, choose, report, tell

RECORDER = vcr.VCR(record_mode="new_episodes", match_on=["method", "uri", "body"])


def run(url):
    with RECORDER.use_cassette("cassette.yaml"):
        call_model(url, "first")
        call_model(url, "second")


def save(url):
    number = 0
    while True:
        number += 1
        with RECORDER.use_cassette("cassette.yaml"):
            call_model(url, f"saved {number}")
        report(number)


def read():
    with RECORDER.use_cassette("cassette.yaml") as cassette:
        tell(len(cassette.responses))


def add(number, url):
    with RECORDER.use_cassette("cassette.yaml"):
        call_model(url, f"added {number}")


choose(run=run, resume=run, save=save, read=read, add=add, count=read)
