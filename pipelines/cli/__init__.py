"""The `kafka-placement` command, as people, spark-submit, wheel tasks and notebooks start it."""

import os
import re
import sys
from importlib import import_module

from typer.exceptions import Abort, TyperException

from pipelines.cli.app import app
from pipelines.errors import EXIT_USAGE, KafkaPlacementError

__all__ = ["app", "entry", "main"]

# In the order of --help. Each module imports what is heavy when its command is called.
_MODULES = (
    *("run_command", "report_command", "tables_command", "query_command"),
    *("what_if_command", "inspect_command", "hotspots_command"),
    *("compare_command", "assign_command", "plan_command", "replay_command", "doctor_command"),
)
for _name in _MODULES:
    import_module(f"pipelines.cli.{_name}")


def main(argv: list[str] | None = None) -> int:
    """Run the command, and return its exit code. argv: arguments; None = those of the process."""
    try:
        code = app(args=argv, prog_name="kafka-placement", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Abort:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except TyperException as error:  # wrong usage
        context = getattr(error, "ctx", None)
        command = "kafka-placement" if context is None else context.command_path
        message, exit_code = f"{error.format_message()} See: {command} --help", EXIT_USAGE
    except KafkaPlacementError as error:
        message, exit_code = str(error), error.exit_code
    except OSError as error:
        message, exit_code = str(error), 1
    except Exception as error:
        # An error of this program in a Spark worker is in the traceback.
        messages = re.findall(r"^pipelines\.errors\.\w+: (.*)$", str(error), flags=re.MULTILINE)
        if not messages:
            raise
        message, exit_code = messages[-1], 1
    print(f"kafka-placement: {message}", file=sys.stderr)
    return exit_code


def entry() -> None:
    """Run the installed command, or a wheel task; exit only with a code other than 0.

    Platforms that call this within their own process may take any SystemExit for a failure.
    """
    code = main()
    if code:
        sys.exit(code)
