"""`logist budget ...`: one command per file."""
