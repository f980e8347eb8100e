"""A project with example jobs in every state, for `logist demo --serve`, for tests of the page, and for pictures."""
