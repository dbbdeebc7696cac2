"""Set up this machine: check Java, fetch jars, compile kernels, start Spark once."""
