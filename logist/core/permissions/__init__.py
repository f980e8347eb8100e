"""The permissions of roles, and the tools that require them."""
