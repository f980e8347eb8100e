"""Temporal's Python SDK: its Replayer over the history of a workflow with SIZE activities, without a server."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta

from measuring import TEXT, measure_async_turns, read_arguments
from temporalio import workflow
from temporalio.api.common.v1 import Payload, Payloads, WorkflowType
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

COUNT = 0 if len(sys.argv) < 3 else int(sys.argv[2])


@workflow.defn(name="Turns")
class Turns:
    """As many activities as the history has."""

    @workflow.run
    async def run(self, count: int) -> int:
        total = 0
        for _ in range(count):
            total += len(
                await workflow.execute_activity(
                    "call_model", result_type=str, start_to_close_timeout=timedelta(minutes=1)
                )
            )
        return total


def to_payloads(value: object) -> Payloads:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode())
    return Payloads(payloads=[payload])


def build_history(count: int) -> History:
    """The events as a server records them: each activity is scheduled, started and completed, and begins a workflow task."""
    events: list[HistoryEvent] = []

    def add(kind: str) -> HistoryEvent:
        event = HistoryEvent(event_id=len(events) + 1, event_type=EventType.Value(f"EVENT_TYPE_{kind}"))
        event.event_time.FromDatetime(datetime(2026, 1, 1, tzinfo=UTC))
        events.append(event)
        return event

    started = add("WORKFLOW_EXECUTION_STARTED").workflow_execution_started_event_attributes
    started.workflow_type.CopyFrom(WorkflowType(name="Turns"))
    started.input.CopyFrom(to_payloads(count))
    started.original_execution_run_id = started.first_execution_run_id = "run"
    started.task_queue.name = "q"
    started.attempt = 1
    for number in range(count + 1):
        scheduled = add("WORKFLOW_TASK_SCHEDULED")
        scheduled.workflow_task_scheduled_event_attributes.task_queue.name = "q"
        begun = add("WORKFLOW_TASK_STARTED")
        begun.workflow_task_started_event_attributes.scheduled_event_id = scheduled.event_id
        done = add("WORKFLOW_TASK_COMPLETED")
        done.workflow_task_completed_event_attributes.scheduled_event_id = scheduled.event_id
        done.workflow_task_completed_event_attributes.started_event_id = begun.event_id
        if number == count:
            break
        asked = add("ACTIVITY_TASK_SCHEDULED")
        attributes = asked.activity_task_scheduled_event_attributes
        attributes.activity_id = str(number + 1)
        attributes.activity_type.name = "call_model"
        attributes.task_queue.name = "q"
        attributes.workflow_task_completed_event_id = done.event_id
        taken = add("ACTIVITY_TASK_STARTED")
        taken.activity_task_started_event_attributes.scheduled_event_id = asked.event_id
        answered = add("ACTIVITY_TASK_COMPLETED").activity_task_completed_event_attributes
        answered.scheduled_event_id = asked.event_id
        answered.started_event_id = taken.event_id
        answered.result.CopyFrom(to_payloads(TEXT))
    ended = add("WORKFLOW_EXECUTION_COMPLETED").workflow_execution_completed_event_attributes
    ended.workflow_task_completed_event_id = done.event_id
    ended.result.CopyFrom(to_payloads(count * len(TEXT)))
    return History(events=events)


async def main() -> None:
    wanted = read_arguments()
    history = WorkflowHistory("w", build_history(wanted.size).events)
    sandboxed = Replayer(workflows=[Turns])
    plain = Replayer(workflows=[Turns], workflow_runner=UnsandboxedWorkflowRunner())
    replayer = sandboxed if wanted.what == "replay-sandboxed" else plain
    await measure_async_turns(lambda: replayer.replay_workflow(history), wanted.runs)


if __name__ == "__main__":
    asyncio.run(main())
