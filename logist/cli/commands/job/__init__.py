"""`logist job ...`: one command a file."""
