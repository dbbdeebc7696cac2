"""The bodies of the commands that need no Spark: a source in, an answer out."""
