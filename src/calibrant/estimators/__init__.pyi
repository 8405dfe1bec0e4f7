from ._serial import SerialDependenceWarning as SerialDependenceWarning
from .loading import load as load
from .onnx import export_onnx as export_onnx
from .recalibrate import RecalibratedRegressor as RecalibratedRegressor
from .regressor import CalibratedRegressor as CalibratedRegressor
from .side_by_side import fit_side_by_side as fit_side_by_side
from .strength import StrengthPath as StrengthPath
from .table_model import TableModel as TableModel
