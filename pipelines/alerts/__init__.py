"""Alerts of a run: thresholds of metrics, and findings that are new."""
