"""The state machine: its table and events, the routing of workflows, and the limits of a job."""
