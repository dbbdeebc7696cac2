"""Compiled scanners of lines."""
