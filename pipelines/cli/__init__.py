"""The `kafka-placement` command, as people, spark-submit, wheel tasks and notebooks start it."""

import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from pipelines import __version__
from pipelines.cli.app import app
from pipelines.cli.text_format import print_error
from pipelines.errors import EXIT_USAGE, KafkaPlacementError, SettingsError
from pipelines.warehouse_urls import redact_urls

__all__ = ["app", "entry", "main"]

# In the order of --help. Each module imports what is heavy when its command is called.
_MODULES = (
    *("run_command", "report_command", "tables_command", "query_command", "maintain_command"),
    *("what_if_command", "inspect_command", "hotspots_command", "snapshot_command"),
    *("compare_command", "assign_command", "plan_command", "check_command", "apply_command"),
    *("operate_command", "mcp_command", "replay_command", "doctor_command"),
)
for _name in _MODULES:
    import_module(f"pipelines.cli.{_name}")
_OUTPUTS = ("--json", "--out", "--report")
_WITHOUT_SPARK = {"what-if", "inspect", "hotspots", "snapshot", "compare", "assign", "plan", "check", "apply"} | {
    *("operate", "approve", "mcp")
}


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(EXIT_USAGE)


def main(argv: list[str] | None = None) -> int:
    """Run the command, and return its exit code. argv: arguments; None = those of the process."""
    try:
        _check_outputs(sys.argv[1:] if argv is None else argv)
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
        message = error.message.removeprefix("Value error, ")
        if parameter is not None:
            is_option = parameter.param_type_name == "option"
            message = f"{parameter.opts[0] if is_option else parameter.metavar or parameter.name}: {message}"
    return f"{message.rstrip('.')}. See: {command} --help"


def _check_outputs(arguments: Sequence[str]) -> None:
    """Raise SettingsError if a file after --json, --out or --report is another argument too, or in such a folder."""
    outputs: list[tuple[str, str]] = []
    inputs: list[str] = []
    words = iter(arguments)
    for word in words:
        option, sign, value = word.partition("=")
        if option in _OUTPUTS:
            outputs.append((option, value if sign else next(words, "")))
        else:
            inputs += filter(None, (word, value))  # a source may be NAME=PATH
    for option, name in outputs:
        file = Path(name)
        paths = [path for text in inputs for path in (Path(text), Path(text, file.name))]
        if _is_file(file) and any(_is_file(path) and path.samefile(file) for path in paths):
            raise SettingsError(f"{option} {name}: the command reads this file: name another one")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except ValueError:  # a null character
        return False


def _keep_pandas_out() -> None:
    """Make PyArrow believe that there is no pandas: it would load it, in 0.2 s and 40 MB, to look for its types."""
    import pyarrow as pa

    sys.modules["pandas"] = None  # type: ignore[assignment]  # so that its import fails
    pa.array([0])
    del sys.modules["pandas"]


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
