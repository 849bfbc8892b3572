"""The one door for foreign arrays: NumPy, lists, torch tensors, anything with DLPack.

What comes out is a C-contiguous NumPy array of a dtype the kernels know; what
cannot come in is refused with a named error, never guessed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.errors import MissingExtra, RefusedPrompt

__all__ = ["float_array", "integer_matrix", "mask_matrix", "row_numbers", "to_numpy"]

_INT64 = np.dtype(np.int64)
_ID_DTYPES = {_INT64, np.dtype(np.int32)}
_BOOL = np.dtype(np.bool_)


def to_numpy(value: Any, name: str) -> npt.NDArray[Any]:
    """Any array-like as a NumPy array, without copying where that is possible.

    Parameters
    ----------
    value : array_like
        NumPy array, nested sequence, CPU torch tensor, or an object with DLPack.
    name : str
        The argument's name, for errors.

    Returns
    -------
    numpy.ndarray
        A numeric or boolean array.

    Raises
    ------
    RefusedPrompt
        ``array-ragged`` (rows of unequal length), ``array-device`` (a tensor
        that is not in host memory), ``array-type`` (strings, objects).
    """
    if isinstance(value, np.ma.MaskedArray):
        raise RefusedPrompt(
            "array-type",
            where=name,
            got="a masked array",
            expected="a plain array",
            hint="its mask would be lost; pass attention_mask",
        )
    if isinstance(value, np.ndarray):
        array: npt.NDArray[Any] = value
    else:
        # torch tensors say `device.type`; reading a GPU tensor would copy it silently or fail late
        device = getattr(value, "device", None)
        device_type = getattr(device, "type", "cpu")
        if device_type != "cpu":
            raise RefusedPrompt(
                "array-device",
                where=name,
                got=f"a tensor on device {device}",
                expected="an array in host memory",
                hint="pass tensor.cpu()",
            )
        try:
            if hasattr(value, "detach"):
                array = np.asarray(value.detach())
            elif hasattr(value, "__dlpack__"):
                array = np.from_dlpack(value)
            else:
                array = np.asarray(value)
        except (ValueError, TypeError, BufferError, RuntimeError, OverflowError) as error:
            raise RefusedPrompt(
                "array-ragged" if "inhomogeneous" in str(error) else "array-type",
                where=name,
                got=_first_line(error),
                expected="a rectangular array of numbers",
                hint="pad the rows to one length and pass attention_mask"
                if "inhomogeneous" in str(error)
                else "",
            ) from error
    if array.dtype.kind not in "biuf":
        raise RefusedPrompt(
            "array-type",
            where=name,
            got=f"dtype {array.dtype}",
            expected="an array of numbers",
        )
    return array


def integer_matrix(value: Any, name: str) -> npt.NDArray[Any]:
    """A (batch, seq) matrix of int32 or int64; a vector becomes one row.

    Parameters
    ----------
    value : array_like
        Token ids.
    name : str
        The argument's name, for errors.

    Returns
    -------
    numpy.ndarray
        int32 or int64, shape (batch, seq), C-contiguous, perhaps read-only.

    Raises
    ------
    RefusedPrompt
        ``<name>-dtype``, ``<name>-rank``, ``<name>-empty`` and what `to_numpy` raises.
    """
    array = to_numpy(value, name)
    if array.dtype not in _ID_DTYPES and array.size:
        array = _as_int64(array, name)
    if array.ndim == 1:
        array = array.reshape(1, -1)
    elif array.ndim != 2:
        raise RefusedPrompt(
            f"{_code(name)}-rank",
            where=name,
            got=f"shape {array.shape}",
            expected="(batch, seq) or (seq,)",
        )
    if array.size == 0:
        raise RefusedPrompt(
            f"{_code(name)}-empty",
            where=name,
            got=f"shape {array.shape}",
            expected="at least one token",
        )
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def mask_matrix(value: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A mask as uint8 or int64 of a given shape; its values are checked by the kernels.

    Parameters
    ----------
    value : array_like
        bool or 0/1.
    name : str
        The argument's name, for errors.
    shape : tuple of int
        The (batch, seq) it must have; a vector may stand for one row.

    Returns
    -------
    numpy.ndarray
        uint8 or int64, shape ``shape``, C-contiguous.

    Raises
    ------
    RefusedPrompt
        ``mask-shape``, ``mask-value``, ``mask-dtype`` and what `to_numpy` raises.
    """
    array = to_numpy(value, name)
    if array.ndim == 1 and shape[0] == 1:
        array = array.reshape(1, -1)
    if array.shape != shape:
        raise RefusedPrompt(
            "mask-shape",
            where=name,
            got=f"shape {array.shape}",
            expected=f"{shape}, the shape of input_ids",
            hint="a mask that also covers generated tokens does not belong to this prompt"
            if array.ndim == 2 and array.shape[0] == shape[0] and array.shape[1] > shape[1]
            else "",
        )
    if array.dtype == _BOOL:
        array = array.view(np.uint8)
    elif array.dtype.kind == "f":
        if not np.isin(array, (0.0, 1.0)).all():
            raise RefusedPrompt(
                "mask-value",
                where=name,
                got=f"dtype {array.dtype} with values other than 0 and 1",
                expected="bool or 0/1",
                hint="an additive mask (0 and -inf) is a different thing",
            )
        array = array.astype(np.int64)
    elif array.dtype != _INT64:
        array = _as_int64(array, name)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def float_array(value: Any, name: str, code: str) -> npt.NDArray[Any]:
    """Floating point values of any rank, also bfloat16 of ml_dtypes or of torch.

    Parameters
    ----------
    value : array_like
        float16, bfloat16, float32 or float64.
    name : str
        The argument's name, for errors.
    code : str
        What the code of the error begins with.

    Returns
    -------
    numpy.ndarray
        Of the same dtype, perhaps read-only, not necessarily contiguous.

    Raises
    ------
    RefusedPrompt
        ``<code>-dtype`` and what `to_numpy` raises.
    MissingExtra
        If a torch tensor is bfloat16 and ml_dtypes is not installed.
    """
    array: npt.NDArray[Any]
    if isinstance(value, np.ndarray) and _is_bfloat16(value.dtype):
        array = value
    elif str(getattr(value, "dtype", "")) == "torch.bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise MissingExtra("ml_dtypes", "onnx") from error
        import torch

        array = to_numpy(value.view(torch.int16), name).view(ml_dtypes.bfloat16)
    else:
        array = to_numpy(value, name)
    kind = array.dtype.kind
    # other byte orders and float128 are no engine's; the kernels copy whole words of the host's
    known = kind == "f" and array.dtype.itemsize in (2, 4, 8) and array.dtype.isnative
    if not known and not _is_bfloat16(array.dtype):
        raise RefusedPrompt(
            f"{code}-dtype",
            where=name,
            got=f"dtype {array.dtype}",
            expected="float16, bfloat16, float32 or float64",
        )
    return array


def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16" and dtype.itemsize == 2


def _as_int64(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise RefusedPrompt(
            f"{_code(name)}-dtype",
            where=name,
            got=f"dtype {array.dtype}",
            expected="an integer array",
            hint="booleans are not token ids" if array.dtype.kind == "b" else "",
        )
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise RefusedPrompt(
            f"{_code(name)}-dtype",
            where=name,
            got=f"{int(array.max())}",
            expected="values that fit int64",
        )
    return array.astype(np.int64)


def _code(name: str) -> str:
    return name.replace("attention_mask", "mask").replace("_", "-")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def row_numbers(rows: Any, batch: int) -> npt.NDArray[Any]:
    """Rows of a batch, as an array.

    Parameters
    ----------
    rows : array_like of int
        Which.
    batch : int
        How many there are.

    Returns
    -------
    numpy.ndarray
        (rows,).

    Raises
    ------
    RefusedPrompt
        ``rows-outside``: if one of them is not there.
    """
    chosen = np.asarray(rows)
    fits = chosen.ndim == 1 and chosen.dtype.kind in "iu" and chosen.size
    if not fits or not ((chosen >= 0) & (chosen < batch)).all():
        raise RefusedPrompt(
            "rows-outside",
            where="rows",
            got=str(chosen.tolist())[:80],
            expected=f"a list of rows from 0 to {batch - 1}",
        )
    return chosen
