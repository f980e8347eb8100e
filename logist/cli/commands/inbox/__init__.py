"""`logist inbox` and its commands."""

from logist.cli.lazy import CommandEntry

INBOX = {
    "snooze": CommandEntry("commands.inbox.snooze:snooze", "Hide a job until a time, or until it changes."),
    "note": CommandEntry("commands.inbox.note:note", "Add a note to a job, without a decision."),
}
