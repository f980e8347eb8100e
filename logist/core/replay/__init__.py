"""Recorded interactions judged by today's rules, and prompts compared with today's wording."""
