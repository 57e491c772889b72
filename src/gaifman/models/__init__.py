"""Other people's models as base models: any classifier in the manner of scikit-learn, any module of PyTorch.

>>> import numpy as np
>>> from gaifman.models.mlp import Batch, Rows
>>> from sklearn.linear_model import LogisticRegression
>>> model = SklearnModel(LogisticRegression())
>>> rows = Rows(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.ones(2, np.float32), 2)
>>> model.begin(width=2, seed=0)
>>> _ = model.learn(Batch(rows, np.array([0, 1], np.float32)))
>>> model.pass_done()
>>> model.probabilities(rows).round(2).tolist()
[0.4, 0.6]

The libraries come with extras, `pip install 'gaifman[sklearn]'`, `[lightgbm]` and `[torch]`, and are loaded when used.
"""

from gaifman.models.sklearn import SklearnModel
from gaifman.models.torch import TorchModel

__all__ = ["SklearnModel", "TorchModel"]
