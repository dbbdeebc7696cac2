"""One reader per source format. Each offers a `Format`; `pipelines.ingest.format_registry` lists them all."""
