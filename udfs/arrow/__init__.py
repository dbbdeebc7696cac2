"""Arrow columns, ragged arrays and Arrow batches as bytes."""
