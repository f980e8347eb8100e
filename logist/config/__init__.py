"""The user's configuration: the environment (cheap to import) and config.yaml (`logist.config.settings`)."""
