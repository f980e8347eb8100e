"""`logist runs ...`: one command per file."""
