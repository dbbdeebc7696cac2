"""Carries out plans on running clusters."""
