"""Plans that only reorder replica lists: preferred leaders and their successors."""
