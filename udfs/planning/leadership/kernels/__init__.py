"""Takeover limits over flat arrays."""
