"""`logist workflow ...`: one command per file."""
