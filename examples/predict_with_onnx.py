"""Write a fitted model as an ONNX file, and predict with it without torch.

Run it with ``python examples/predict_with_onnx.py``; it writes ``model.onnx`` here. It
needs ``pip install 'calibrant[onnx]'``; where the file is used, numpy and onnxruntime
are enough.
"""

import json

import numpy as np
import onnxruntime

from calibrant import CalibratedRegressor, export_onnx

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (800, 2))
y = np.sin(3 * x[:, 0]) + (0.1 + 0.4 * np.abs(x[:, 1])) * rng.standard_normal(800)
train, unseen = slice(0, 600), slice(600, None)

# A file holds networks, not boosted trees.
model = CalibratedRegressor(
    learners=["network"], members=1, folds=4, epochs=60, random_state=0
)
model.fit(x[train], y[train])
path = export_onnx(model, "model.onnx", levels=(0.05, 0.5, 0.95))

# From here on nothing of calibrant or torch is used.
session = onnxruntime.InferenceSession(path)
levels = json.loads(session.get_modelmeta().custom_metadata_map["levels"])
mean, std, quantiles = session.run(None, {"features": x[unseen]})
inside = (quantiles[:, 0] <= y[unseen]) & (y[unseen] <= quantiles[:, -1])
print(f"levels {levels}; first row: {mean[0]:.3f} ± {std[0]:.3f}, {quantiles[0]}")
print(f"The 90 % intervals cover {inside.mean():.1%} of {len(inside)} unseen rows.")
