"""Settings: the files in conf/, environment variables and command-line options."""
