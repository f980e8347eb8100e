"""`logist role ...`: one command per file."""
