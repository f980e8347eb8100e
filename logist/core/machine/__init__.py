"""The state machine: its table, its events, the routing of workflows, and the limits of a job."""
