"""The inner loops, compiled by numba: arrays in, arrays out. They know no names, settings or files.

    random   numbers keyed by what they are for, never by order or thread
    sets     small sets, sorted runs
    draws    Algorithm 1 on sorted rows
    balls    which edges hidden facts take away; all objects within a distance

Importing this package imports numba: other modules import it where they compute, not where they begin.
"""
