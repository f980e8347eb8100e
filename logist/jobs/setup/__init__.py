"""Commands that run in a workspace, and the setup that makes it ready for them."""
