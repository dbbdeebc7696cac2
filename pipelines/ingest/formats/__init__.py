"""One reader per source format. Each offers a `Format`; `pipelines.ingest.snapshot_reader` lists them all."""
