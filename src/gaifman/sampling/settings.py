"""The settings of training examples and of drawn neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaifman.config import check_choice, check_fraction, check_int, check_radius, check_seed
from gaifman.sampling.negatives import NEGATIVE_SAMPLING
from gaifman.sampling.rng import Keys, fold_in, make_key

HIDE_MODES = ("auto", "facts", "links")
"""What to hide: the facts that make an answer true, or also all facts between its objects. `auto` is `facts` where
nothing is chosen by validation facts."""
MAX_PER_ANSWER = 100_000
"""Largest number of neighbourhoods or negatives of one answer."""
MAX_DRAWS = 1_000_000
"""Largest number of draws for one tuple: they are in memory together."""


@dataclass(frozen=True, slots=True)
class ExampleConfig:
    """How many examples to make, and how."""

    positives: int = 5
    """w: neighbourhoods drawn for each answer."""
    negatives: int = 25
    """w̃: negatives of each answer, with one neighbourhood each."""
    negative_sampling: str = "mixed"
    """Where replacements come from: `uniform`, `typed` or `mixed`; see `gaifman.sampling.negatives`."""
    hide: str = "auto"
    """`facts`, or `links` to also hide every fact between two objects of the tuple or of its answer. `auto` is `facts`,
    or what validation facts choose."""
    holdout: float = 0.1
    """The fraction of answers that is held out; none of fewer than 10 answers."""
    max_held_out: int = 1_000
    """Largest number of held-out answers."""
    seed: int = 0
    block_size: int = 256
    """Answers per block."""
    hard_negative_fraction: float = 0.0
    """The fraction of hard negatives: the new object is a few steps from one that stays."""

    def __post_init__(self) -> None:
        for name, minimum in (("positives", 1), ("negatives", 0)):
            check_int(name, getattr(self, name), minimum, limit=MAX_PER_ANSWER)
        for name, minimum in (("max_held_out", 0), ("block_size", 1)):
            check_int(name, getattr(self, name), minimum)
        check_seed(self.seed)
        check_choice("negative_sampling", self.negative_sampling, NEGATIVE_SAMPLING)
        check_fraction("hard_negative_fraction", self.hard_negative_fraction)
        check_choice("hide", self.hide, HIDE_MODES)
        check_fraction("holdout", self.holdout, one=False)


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How to draw neighbourhoods. The paper calls the settings r, k and w."""

    radius: int = 1
    """r: the largest distance of a member from an object of the tuple."""
    size: int | None = 20
    """k: the largest number of members besides the tuple's own objects; None for all."""
    draws: int = 1
    """w: the number of neighbourhoods of each tuple."""
    seed: int = 0
    purpose: str = "draw"
    """What the draws are for. Another purpose gives other draws for the same seed."""
    shared_order: bool = False
    """Whether all tuples with the same object at the same position share its random order.

    Each tuple has the same distribution. Draws of different tuples are not independent, and work can be shared.
    """

    def __post_init__(self) -> None:
        check_radius(self.radius)
        if self.size is not None:
            hint = "the tuple's own objects are always members: r=0 takes them alone, k=None all objects within r"
            check_int("size", self.size, 1, hint=hint)
        check_int("draws", self.draws, 1, MAX_DRAWS)
        check_seed(self.seed)

    def keys(self) -> Keys:
        """Return the keys (w,), uint64, of the draws, derived from seed, purpose and number."""
        return fold_in(make_key(self.seed, self.purpose), np.arange(self.draws))
