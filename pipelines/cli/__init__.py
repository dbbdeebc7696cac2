"""The `kafka-placement` command, as people, spark-submit, wheel tasks and notebooks start it."""

import os
import re
import sys
from importlib import import_module

from typer.exceptions import Abort, TyperException

from pipelines.cli.app import app
from pipelines.errors import EXIT_USAGE, KafkaPlacementError

__all__ = ["app", "entry", "main"]

# One module per command, in the order of --help. Each imports what is heavy when it is called.
COMMANDS = (
    "run_command",
    "report_command",
    "tables_command",
    "query_command",
    "what_if_command",
    "inspect_command",
    "hotspots_command",
    "compare_command",
    "assign_command",
    "plan_command",
    "replay_command",
    "doctor_command",
)
for _name in COMMANDS:
    import_module(f"pipelines.cli.{_name}")


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments; None = those of the process.

    Returns:
        The exit code.
    """
    try:
        code = app(args=argv, prog_name="kafka-placement", standalone_mode=False)
    except TyperException as error:  # wrong usage
        context = getattr(error, "ctx", None)
        command = "kafka-placement" if context is None else context.command_path
        print(f"kafka-placement: {error.format_message()} See: {command} --help", file=sys.stderr)
        return EXIT_USAGE
    except Abort:
        return 130
    except KafkaPlacementError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader, such as `head`, has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        message = _find_worker_error(error)
        if message is None:
            raise
        print(f"kafka-placement: {message}", file=sys.stderr)
        return 1
    return code if isinstance(code, int) else 0


def _find_worker_error(error: Exception) -> str | None:
    """Find the message of an error of this program in the traceback of a Spark worker."""
    messages = re.findall(r"^pipelines\.errors\.\w+: (.*)$", str(error), flags=re.MULTILINE)
    return messages[-1] if messages else None


def entry() -> None:
    """Run the installed command, or a wheel task; exit only with a code other than 0.

    Platforms that call this within their own process may take any SystemExit for a failure.
    """
    code = main()
    if code:
        sys.exit(code)
