"""The commands of Logist, one per file."""
