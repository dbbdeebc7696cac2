"""The goal zones: fewer bytes between zones, within the limits that all other loads keep to."""
