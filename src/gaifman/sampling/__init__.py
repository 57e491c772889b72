"""What a model is trained on: neighbourhoods, negatives, hidden facts.

rng             random keys for arrays
neighbourhoods  Algorithm 1: draw neighbourhoods of tuples
constraints     functional and type constraints of relations, and conflicts with them
negatives       answers with one object replaced
hiding          what is hidden from a tuple
examples        answers and negatives in blocks
"""
