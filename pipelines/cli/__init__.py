"""The `kafka-placement` command, as people, spark-submit, wheel tasks and notebooks start it."""

import io
import logging
import os
import re
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

import typer
from typer.exceptions import Abort, TyperException

from pipelines.cli.app import app
from pipelines.cli.output_files import check_outputs
from pipelines.cli.text_format import print_error
from pipelines.errors import EXIT_USAGE, KafkaPlacementError
from pipelines.warehouse_urls import redact_urls

__all__ = ["app", "entry", "main"]

# In the order of --help. Each module imports what is heavy when its command is called.
_MODULES = (
    *("run_command", "report_command", "tables_command", "query_command", "sql_command", "maintain_command"),
    *("what_if_command", "inspect_command", "hotspots_command", "snapshot_command"),
    *("compare_command", "assign_command", "plan_command", "apply_command", "replay_command", "doctor_command"),
)
for _name in _MODULES:
    import_module(f"pipelines.cli.{_name}")
_WITHOUT_SPARK = {"what-if", "inspect", "hotspots", "snapshot", "compare", "assign", "plan", "apply"}


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise ImportError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def main(argv: list[str] | None = None) -> int:
    """Run the command, and return its exit code. argv: arguments; None = those of the process."""
    try:
        check_outputs(sys.argv[1:] if argv is None else argv)
        code = app(args=argv, prog_name="kafka-placement", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Abort:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except TyperException as error:  # wrong usage
        lines, exit_code = [_describe_usage(error)], EXIT_USAGE
    except KafkaPlacementError as error:
        lines, exit_code = list(map(str, error.args)), error.exit_code
    except OSError as error:
        lines, exit_code = [str(error)], 1
    except Exception as error:
        # An error of this program in a Spark worker is in the traceback.
        messages = re.findall(r"^pipelines\.errors\.\w+: (.*)$", str(error), flags=re.MULTILINE)
        if not messages and not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        lines, exit_code = [messages[-1] if messages else _describe_spark_error(error)], 1
    print_error(lines)
    return exit_code


def _describe_spark_error(error: Exception) -> str:
    """Describe an error of Spark that no module expects, without the stack trace of Java, which goes to the log."""
    from pipelines.spark.storage_faults import read_message

    logging.getLogger(__name__).debug("Spark failed", exc_info=error)
    problem = next(iter(read_message(error).strip().splitlines()), type(error).__name__).rstrip(".")
    remedy = (
        "Repeat the command with KAFKA_PLACEMENT_LOG_LEVEL=debug, and report its log: this is a fault of the program"
    )
    return f"Spark failed: {redact_urls(problem)}. {remedy}."


def _describe_usage(error: TyperException) -> str:
    """Describe wrong usage: the option, what is wrong with its value, and where the options are explained."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    command = "kafka-placement" if context is None else context.command_path
    message = error.format_message()
    if type(error) is typer.BadParameter:
        name = "" if parameter is None else f"{_name_parameter(parameter)}: "
        message = name + error.message.removeprefix("Value error, ")
    return f"{message.rstrip('.')}. See: {command} --help"


def _name_parameter(parameter: Any) -> str:
    """Return an option's name as it is written, or the word for an argument in the help."""
    return str(parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name)


def _keep_pandas_out() -> None:
    """Make PyArrow believe that there is no pandas: it would load it, in 0.2 s and 40 MB, to look for its types."""
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    sys.meta_path.remove(finder)


def entry() -> None:
    """Run the installed command, or a wheel task; exit only with a code other than 0.

    Platforms that call this within their own process may take any SystemExit for a failure.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding without some character must not stop an answer
            stream.reconfigure(errors="backslashreplace")
    if "pandas" not in sys.modules and _WITHOUT_SPARK.intersection(sys.argv[1:2]):
        _keep_pandas_out()
    code = main()
    if code:
        sys.exit(code)
