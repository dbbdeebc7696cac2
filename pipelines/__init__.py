"""The pipeline from sources to bronze, silver and gold tables, and the commands on top of it."""

import logging

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # no log unless logging_setup configures one
