"""`mcp`: tools for assistants, on standard input and output."""

from pathlib import Path
from typing import Annotated

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import flag
from pipelines.cli.source_arguments import CommandConfigOption

_ALLOW = "Offer the tool apply_plan too, which carries out plans on running clusters."


@app.command("mcp", rich_help_panel="Running clusters", epilog=examples("mcp"))
def serve_tools(
    allow_apply: Annotated[bool, flag("allow-apply", _ALLOW)] = False,
    command_config: CommandConfigOption = None,
    conf: common.ConfOption = None,
    changes: common.SetOption = None,
) -> None:
    """Serve tools for assistants over the Model Context Protocol on stdin and stdout; read-only unless allowed."""
    from pipelines import mcp_server
    from pipelines.live.client_properties import read_client_properties

    properties = None if command_config is None else Path(command_config)
    common.read_settings(conf, changes)  # a wrong file ends the command, and not the first call
    if properties is not None:
        read_client_properties(properties)
    tools = mcp_server.ClusterTools(properties, None if conf is None else Path(conf), tuple(changes or ()))
    mcp_server.make_server(tools, allow_apply=allow_apply).run("stdio")
