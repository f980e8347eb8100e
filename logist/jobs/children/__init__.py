"""Steps given to other jobs: spawn them, share limits with them, gather what they did."""
