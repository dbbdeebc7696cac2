"""Fits of observed replica lists to placement schemes, over flat arrays."""
