"""Fitted regressors as ONNX files, whose predictions need no torch.

The graph is written operation by operation and not traced: ONNX Runtime has no erf in
float64, and float32 cannot tell the tails that a recalibration corrects.
"""

from calibrant.estimator.onnx.export import export_onnx

__all__ = ["export_onnx"]
