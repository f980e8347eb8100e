"""The state machine: its table, its events, where a workflow leads, and the limits of a job."""
