"""The commands of `logist skill`."""
