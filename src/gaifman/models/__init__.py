"""Base models: the paper's networks, scikit-learn classifiers, PyTorch modules, or your own subclass of `BaseModel`.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> model = SklearnModel(LogisticRegression())
>>> rows = SparseRows(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, np.float32), 2)
>>> model.reset(width=2, seed=0)
>>> loss = model.fit_batch(Batch(rows, np.array([0, 1], np.float32)))
>>> model.end_epoch()
>>> model.probabilities(rows).round(2).tolist()
[0.4, 0.6]

Install the libraries with `pip install 'gaifman[sklearn]'`, `[lightgbm]` or `[torch]`. They are imported when used.
"""

from gaifman.models.base import BaseModel, Batch, SparseRows
from gaifman.models.mlp import MLP, Logistic, make_base_model
from gaifman.models.sklearn import SklearnModel
from gaifman.models.torch import TorchModel

__all__ = [
    "MLP",
    "BaseModel",
    "Batch",
    "Logistic",
    "SklearnModel",
    "SparseRows",
    "TorchModel",
    "make_base_model",
]
