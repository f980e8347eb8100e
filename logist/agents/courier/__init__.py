"""The courier: the process that makes paid calls, and the meaning of its files."""
