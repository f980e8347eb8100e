"""What a role may do, and the tools that need those permissions."""
