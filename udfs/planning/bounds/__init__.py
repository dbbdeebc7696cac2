"""Lower bounds that prove how little any plan must copy or leave uneven."""
