"""Check tables against their contracts with Great Expectations."""
