"""Functions on arrays; they use only numpy and scipy."""
