"""`logist job ...`: one command per file."""
