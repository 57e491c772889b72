"""Inner loops compiled by numba: arrays in, arrays out. They know no names, settings or files.

    jit              decorators
    rng              stateless random numbers
    collections      small sets, bits, search, sorting
    sampling         Algorithm 1: draw neighbourhoods
    graph            hidden edges, balls, edge look-up
    local_facts      the facts inside a neighbourhood
    templates        index of the features with a template
    paths            match these features
    bitset_vm        run the programs of all other features
    rows             write sparse rows
    evaluate         features of many neighbourhoods
    negatives        negative sampling
    inputs           features to inputs of a base model
    simd             vector instructions
    mlp              train and evaluate a network
    candidate_pairs  features of all pairs with one fixed object
    ranking          scores of all these pairs

Importing a kernel imports numba, which takes a quarter of a second: import kernels where they are used.
"""
