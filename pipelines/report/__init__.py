"""The report: one HTML page of a run, made of the tables alone."""
