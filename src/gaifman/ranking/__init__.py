"""Ranking: parse a query to a model, choose candidates, score them, and order them by probability."""
