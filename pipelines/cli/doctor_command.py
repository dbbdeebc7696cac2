"""`doctor`: whether this machine can run everything."""

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import ConfOption, JsonOption, SetOption, WarehouseOption, read_settings, write_answer
from pipelines.cli.help_examples import examples
from pipelines.errors import EXIT_INPUT


@app.command(rich_help_panel="This machine", epilog=examples("doctor"))
def doctor(
    warehouse: WarehouseOption = None, json_file: JsonOption = None, conf: ConfOption = None, options: SetOption = None
) -> None:
    """Check Java, jars, libraries, memory and warehouse, and say how to fix what is missing."""
    from pipelines.setup.diagnostics import check_machine

    place = read_settings(conf, options, warehouse).store
    checks = check_machine(place.warehouse, place.catalog)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.subject:18} {check.result}")
        if check.remedy:
            lines.append(f"{'':26}{check.remedy}")
    failed = sum(not check.ok for check in checks)
    lines.append(f"{failed} of {len(checks)} checks failed." if failed else "Everything is there.")
    write_answer(json_file, {"ok": not failed, "checks": checks}, lines)
    if failed:
        raise typer.Exit(EXIT_INPUT)
