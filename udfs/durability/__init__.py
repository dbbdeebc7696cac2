"""Which broker failures lose data for good."""
