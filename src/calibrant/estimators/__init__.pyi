from .any_regressor import RecalibratedRegressor as RecalibratedRegressor
from .folds import SerialDependenceWarning as SerialDependenceWarning
from .onnx import export_onnx as export_onnx
from .persistence import load as load
from .regressor import CalibratedRegressor as CalibratedRegressor
from .regressor import fit_side_by_side as fit_side_by_side
from .strength import StrengthPath as StrengthPath
from .table_model import TableModel as TableModel
