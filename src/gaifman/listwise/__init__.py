"""Mined formulas and ranked lists: a model that scores all candidates of a position at once."""
