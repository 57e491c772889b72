"""Exact answers to first-order queries, by DuckDB."""
