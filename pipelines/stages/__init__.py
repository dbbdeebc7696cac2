"""The stages: pure functions, DataFrames and frozen parameters in, one DataFrame with its table's columns out.

A stage imports no other stage, store or session, and asks no clock, random source or environment; the runner does.
"""
