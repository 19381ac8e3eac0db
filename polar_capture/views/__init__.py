"""Captured exchanges as plain text for people: pure functions, used by mitmweb's content views."""
