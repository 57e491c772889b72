"""Explanations of predictions: attribution to formulas, witnesses, counterfactuals and diagrams."""
