"""`python -m pipelines.cli`: the command, where it is not installed."""

from pipelines.cli import entry

if __name__ == "__main__":
    entry()
