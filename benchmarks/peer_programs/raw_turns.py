"""The least that a turn or a record can cost in Python: a call alone; a line of JSON with an fsync; a row in SQLite."""

import json
import os
import sqlite3

from measuring import RECORD, ask_model, measure_turns, read_arguments

wanted = read_arguments()
if wanted.what == "step":
    measure_turns(lambda: ask_model(wanted.url), wanted.runs)
elif wanted.what == "append":
    with open("log.jsonl", "ab", buffering=0) as file:

        def write_line() -> None:
            file.write(json.dumps({"text": RECORD}).encode() + b"\n")
            os.fsync(file.fileno())

        measure_turns(write_line, wanted.runs)
else:
    base = sqlite3.connect("log.sqlite")
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=FULL")
    base.execute("CREATE TABLE IF NOT EXISTS log (sequence INTEGER PRIMARY KEY, entry TEXT)")

    def insert_row() -> None:
        with base:
            base.execute("INSERT INTO log (entry) VALUES (?)", (json.dumps({"text": RECORD}),))

    measure_turns(insert_row, wanted.runs)
