"""Tasks on other machines: `logist run --on`. The truth stays on the dispatcher's disk; a worker gets a task and returns files."""
