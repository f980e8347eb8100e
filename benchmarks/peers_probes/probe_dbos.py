"""DBOS on SQLite: every call is a step of a workflow. It recovers workflows by itself when it is launched."""

import itertools

from dbos import DBOS, SetWorkflowID
from probing import TEXT, call_model, choose, report, tell

DBOS(
    config={
        "name": "probe",
        "system_database_url": "sqlite:///probe.sqlite",
        "run_admin_server": False,
        "log_level": "CRITICAL",
    }
)


@DBOS.step()
def ask(url, which):
    return call_model(url, which)


@DBOS.step()
def keep(text):
    return text


@DBOS.workflow()
def work(url):
    ask(url, "first")
    ask(url, "second")


@DBOS.workflow()
def endless():
    for number in itertools.count(1):
        keep(TEXT)
        report(number)


@DBOS.workflow()
def change(number):
    return keep(number)


def run(url):
    DBOS.launch()
    with SetWorkflowID("one"):
        work(url)


def resume(url):
    DBOS.launch()
    DBOS.retrieve_workflow("one").get_result()


def save():
    DBOS.launch()
    with SetWorkflowID("one"):
        endless()


def read():
    DBOS.launch()
    tell(len(DBOS.list_workflow_steps("one")))


def add(number, url):
    DBOS.launch()
    with SetWorkflowID(f"change-{number}"):
        change(number)


def count():
    DBOS.launch()
    tell(len(DBOS.list_workflows(status="SUCCESS")))


choose(run=run, resume=resume, save=save, read=read, add=add, count=count)
DBOS.destroy()
