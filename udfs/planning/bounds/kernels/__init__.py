"""Graph algorithms behind bounds: takeover limits by matchings, and node prices of min-cost flows."""
