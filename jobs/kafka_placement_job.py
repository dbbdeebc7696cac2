"""The file that spark-submit starts: `spark-submit --py-files kafka_placement-*.whl this.py run SOURCE...`.

Arguments are those of the command `kafka-placement`.
"""

from pipelines.cli import entry

if __name__ == "__main__":
    entry()
