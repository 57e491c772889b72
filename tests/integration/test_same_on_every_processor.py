"""A model has the same bytes on every kind of processor: numpy and BLAS have other code for each of them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from processes import python, run

TRAIN = """
import hashlib
import gaifman
from gaifman.io.model_file import model_bytes
kb = gaifman.demo()
settings = {"min_examples": 0, "size": 5, "positives": 2, "negatives": 4, "draws": 4, "threads": 1}
few = {"epochs": 1, "hidden": [8]}
completion = gaifman.complete(kb, ["borders", "member_of"], options=few, **settings)
model = gaifman.fit(kb, "borders(x, y)", options=few, patience=1, **settings)
assert completion.calibration.fitted and model.calibration.fitted
for each in (completion, model):
    print(hashlib.sha256(model_bytes(*each.state())).hexdigest())
print(model.answers(x="france").as_dict())
"""
CORES = ("Nehalem", "Haswell", "SkylakeX")
"""Kinds of processor whose code OpenBLAS can be made to run; the last one needs AVX-512."""


def numpy_features() -> str:
    """The instruction sets of this processor that numpy has code of its own for."""
    core = getattr(np, "_core", None) or np.core
    found = core._multiarray_umath
    return " ".join(name for name in found.__cpu_dispatch__ if found.__cpu_features__.get(name))


def trained_with(**settings: str) -> str:
    return run(python("-c", TRAIN), env={**os.environ, **settings}, check=True).stdout


@pytest.fixture(scope="module")
def expected() -> str:
    return trained_with()


@pytest.mark.parametrize("core", CORES)
def test_model_bytes_do_not_depend_on_the_kernels_of_blas(core: str, expected: str) -> None:
    """The calibration once differed by 7e-8: it was fitted with sums of BLAS."""
    if core == "SkylakeX" and "AVX512" not in numpy_features() and "X86_V4" not in numpy_features():
        core = "Haswell"  # the processor could not run the code of the other
    assert trained_with(OPENBLAS_CORETYPE=core) == expected


def test_model_bytes_do_not_depend_on_the_vector_instructions_of_numpy(expected: str) -> None:
    """Exp and log of AVX-512 differ from the others in the last bit."""
    assert trained_with(NPY_DISABLE_CPU_FEATURES=numpy_features()) == expected
