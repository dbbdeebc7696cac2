"""What `make setup` does: find Java, fetch jars, compile kernels, start Spark once."""
