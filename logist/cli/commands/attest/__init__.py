"""`logist attest`."""
