"""`kafka-placement`: the command, and what spark-submit, wheel jobs and notebooks start. Heavy imports stay inside."""

from __future__ import annotations

import os
import re
import sys

from typer.exceptions import Abort, TyperException

from pipelines.cli import plan_command, replay_command, source_commands, warehouse_commands
from pipelines.cli.app import app
from pipelines.errors import EXIT_USAGE, KafkaPlacementError

__all__ = ["app", "entry", "main", "plan_command", "replay_command", "source_commands", "warehouse_commands"]


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command with these arguments (default: the process's own)."""
    try:
        code = app(args=argv, prog_name="kafka-placement", standalone_mode=False)
    except TyperException as error:  # all that typer rejects is wrong usage
        print(f"kafka-placement: {error.format_message()} See: {_command(error)} --help", file=sys.stderr)
        return EXIT_USAGE
    except Abort:
        return 130
    except KafkaPlacementError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        said = _from_worker(error)
        if said is None:
            raise
        print(f"kafka-placement: {said}", file=sys.stderr)
        return 1
    return code if isinstance(code, int) else 0


def _command(error: TyperException) -> str:
    """The command that was used wrongly, as it is typed."""
    context = getattr(error, "ctx", None)
    return "kafka-placement" if context is None else str(context.command_path)


def _from_worker(error: Exception) -> str | None:
    """What an error of ours said in a Spark worker, or None: Spark hands it on as a traceback's text."""
    found = re.findall(r"^pipelines\.errors\.\w+: (.*)$", str(error), flags=re.MULTILINE)
    return found[-1] if found else None


def entry() -> None:
    """The installed command, and the entry point of wheel tasks: it ends the process where something is to be told.

    Where all is well it returns: a platform that calls it within its own process may take any SystemExit for a failure.
    """
    code = main()
    if code:
        sys.exit(code)
