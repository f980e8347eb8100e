"""Logist through its Python interface: a note in the history of a job is one durable append."""

from probing import TEXT, choose, report, tell

from logist import Project


def save():
    job = Project.open().open_job("j")
    number = 0
    while True:
        number += 1
        job.add_note(TEXT)
        report(number)


def count():
    job = Project.open().open_job("j")
    tell(sum(entry.kind == "note" for entry in job.history))


def read():
    job = Project.open().open_job("j")
    job.add_note(TEXT)
    if problems := job.verify().problems:
        raise SystemExit(problems[0].message)
    tell(sum(entry.kind == "note" for entry in job.history) - 1)


choose(save=save, read=read, count=count)
