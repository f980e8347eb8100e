"""The courier: the process that pays for answers, and what its files say to others."""
