"""The stages: pure functions, DataFrames and frozen parameters in, one DataFrame out, closed by its table's columns.

A stage imports no other stage, and neither store, session nor settings: the runner reads its inputs and writes its
output. Nothing here asks the clock, a random source or the environment.
"""
