"""Formulas: text, trees, transformations and the definition of truth."""
