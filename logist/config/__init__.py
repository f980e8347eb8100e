"""What the user set: the environment (cheap to import) and config.yaml (`logist.config.settings`)."""
