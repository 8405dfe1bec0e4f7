"""Named tensors as the bytes of a safetensors file, and back."""

from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from calibrant.storage._error import StorageError

__all__ = ["check_arrays", "list_arrays", "pack_arrays", "unpack_arrays"]

# What safetensors can both write and read; it writes some others that it cannot read.
_DTYPES = (
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float8_e4m3fn, torch.float8_e4m3fnuz),
    *(torch.float8_e5m2, torch.float8_e5m2fnuz),
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64),
)
# A name of the file format itself.
_RESERVED = "__metadata__"


def check_arrays(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU, in the order of their names, each with own memory."""
    if not isinstance(arrays, Mapping):
        raise StorageError(
            f"arrays must be a mapping of names to tensors, got a "
            f"{type(arrays).__name__}."
        )
    for name, tensor in arrays.items():
        _check_name(name)
        _check_tensor(name, tensor)
    return {name: _copy(arrays[name]) for name in sorted(arrays)}


def list_arrays(arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """Describe each array by dtype and shape, as in ``float32[64, 13]``."""
    return {
        name: f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        for name, tensor in arrays.items()
    }


def pack_arrays(arrays: dict[str, Tensor]) -> bytes:
    """Return the safetensors file of what :func:`check_arrays` gave."""
    try:
        return save(arrays)
    except (SafetensorError, KeyError) as error:
        raise StorageError(
            f"the installed safetensors does not take these arrays: {error}. "
            "Upgrade safetensors."
        ) from error


def unpack_arrays(content: bytes, *, where: str) -> dict[str, Tensor]:
    """Read a safetensors file; tensors come in the order of their names."""
    try:
        arrays = load(content)
    except (
        *(SafetensorError, LookupError, ValueError, TypeError),
        *(RuntimeError, AssertionError, OverflowError),
    ) as error:
        raise StorageError(
            f"{where} is no safetensors file that this environment can read: {error}. "
            "Upgrade safetensors, or write the folder again."
        ) from error
    # Memory of torch is aligned as that of a model which was never saved; vectorized
    # kernels may round differently on other addresses.
    return {name: arrays[name].clone() for name in sorted(arrays)}


def _check_name(name: object) -> None:
    if not isinstance(name, str) or name in ("", _RESERVED) or _is_torn(name):
        raise StorageError(
            f"names of arrays must be Unicode text, not empty and not {_RESERVED!r}, "
            f"got {name!r}."
        )


def _is_torn(name: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in name)


def _check_tensor(name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        raise StorageError(
            f"arrays[{name!r}] must be a tensor, got a {type(tensor).__name__}. "
            "Use torch.as_tensor, or put it into the description."
        )
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
        raise StorageError(
            f"arrays[{name!r}] must be a dense tensor with values, got one of layout "
            f"{tensor.layout} on {tensor.device}. Use to_dense(), or store its parts."
        )
    if tensor.dtype not in _DTYPES:
        raise StorageError(
            f"arrays[{name!r}] has dtype {tensor.dtype}, which safetensors cannot "
            "hold. Convert it, complex128 with torch.view_as_real."
        )


def _copy(tensor: Tensor) -> Tensor:
    # Always a clone, which also carries out a conjugate that is only a mark on memory.
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
