"""Lower bounds for what any plan must copy or leave uneven."""
