"""Evaluation: rank held-out facts among all objects, and compute metrics with confidence intervals."""
