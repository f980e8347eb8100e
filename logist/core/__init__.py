"""The pure heart: values in, values out; no file, clock, id, environment or network."""
