"""`logist workflow ...`: one command a file."""
