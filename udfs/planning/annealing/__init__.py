"""Plans by simulated annealing: counts, bytes, leaders and takeovers at once."""
