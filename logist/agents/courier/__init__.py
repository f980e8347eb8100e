"""The courier: the process that pays for answers, and the meaning of its files."""
