"""Run Spark's data frames in this process, without Java: Sail executes what a Spark Connect client sends it.

For few rows: Java would take longer to start, and Spark to plan the queries, than the rows to be computed. Sail's
server has no authentication, and who connects to it can run code. So it listens on this machine only, and drops every
connection but the first one, which is that of the session.
"""

import ctypes
import importlib.util
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.errors import EnvironmentFault

_HOST = "127.0.0.1"
_SO_ATTACH_FILTER = 26  # of Linux
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # a filter of one instruction: return 0 bytes of the packet
_IDLE_SECONDS = str(7 * 24 * 3600)  # after which Sail forgets a session
_servers: list[Any] = []  # they run as long as this process


def can_start_sail() -> bool:
    """Tell whether Sail is installed, and this machine can keep others from its server."""
    return sys.platform == "linux" and importlib.util.find_spec("pysail") is not None


def start_sail() -> SparkSession:
    """Start Sail in this process and open a session of it; raise EnvironmentFault if others could connect too."""
    # Before the import. Errors reach the client; a step may take longer than the 15 minutes that Sail waits by default.
    os.environ |= {"RUST_LOG": os.environ.get("RUST_LOG", "off"), "SAIL_SPARK__SESSION_TIMEOUT_SECS": _IDLE_SECONDS}
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(_HOST, 0)
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://{_HOST}:{port}").getOrCreate()
    spark.conf.get("spark.sql.session.timeZone")  # the connection is made with the first call
    if not _drop_connections(port):
        spark.stop()
        server.stop()
        problem = "other users of this machine could connect to the Spark Connect server of this process"
        raise EnvironmentFault(f"{problem}. Use Spark with Java: --set run.engine=spark")
    _servers.append(server)
    return spark


def _drop_connections(port: int) -> bool:
    """Drop all further connections to the socket of this process that listens on a port; tell whether there is one."""
    program = ctypes.create_string_buffer(_DROP_ALL)
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it has been closed meanwhile
            if not str(link.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(link.name))) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and one.getsockname()[:2] == (_HOST, port):
                    argument = struct.pack("HP", 1, ctypes.addressof(program))
                    one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, argument)
                    return True
    return False
