"""Plans that only reorder replica lists: who leads, and who takes over."""
