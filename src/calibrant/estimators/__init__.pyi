from .any_regressor import RecalibratedRegressor as RecalibratedRegressor
from .folds import SerialDependenceWarning as SerialDependenceWarning
from .onnx import export_onnx as export_onnx
from .persistence import load as load
from .regressor import CalibratedRegressor as CalibratedRegressor
from .regressor import StrengthPath as StrengthPath
