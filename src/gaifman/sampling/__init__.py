"""What a model is trained on: neighbourhoods, negatives, hidden facts.

rng             random keys for arrays
neighbourhoods  Algorithm 1: draw neighbourhoods of tuples
constraints     functional and type constraints of relations
conflicts       known facts and types that make a tuple improbable, by a constraint
negatives       answers with one object replaced
hiding          facts to hide from a training tuple
examples        answers and negatives in blocks
"""
