"""Steps that child jobs do: create the jobs, share limits with them, gather their results."""
