"""Features Φ and their values.

feature_sets  feature sets, named or from `.phi` files
compiler      features to programs
templates     features that are looked up instead
evaluator     feature values of neighbourhoods
matrix        sparse feature values
grounding     facts that make a feature true
mining        frequent patterns as features
"""
