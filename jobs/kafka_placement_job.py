"""Run `kafka-placement`: `spark-submit --py-files kafka_placement-*.whl kafka_placement_job.py run SOURCE...`."""

from pipelines.cli import entry

if __name__ == "__main__":
    entry()
