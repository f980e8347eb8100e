"""`logist role ...`: one command a file."""
