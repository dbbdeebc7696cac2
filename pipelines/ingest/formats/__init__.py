"""One reader per source format. Each offers a `Format`; `registry.py` lists them all."""
