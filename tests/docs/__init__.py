"""What the pages say is run as they print it: commands, queries, code, links."""
