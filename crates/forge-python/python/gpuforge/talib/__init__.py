"""A drop-in for TA-Lib: ``import gpuforge.talib as talib``.

The same names, arguments, defaults, types and errors; NaN before the first value, whole numbers as ``int32``; Series of pandas
and Polars go in and come out.

>>> import numpy as np
>>> SMA(np.array([1.0, 2.0, 3.0, 4.0]), timeperiod=2)
array([nan, 1.5, 2.5, 3.5])
>>> "RSI" in get_functions()
True
"""

from __future__ import annotations

from typing import Any

from gpuforge.talib import _functions
from gpuforge.talib._functions import *  # noqa: F403
from gpuforge.talib._functions import GROUPS as _GROUPS
from gpuforge.talib._functions import POSITIONS as _POSITIONS
from gpuforge.talib._ma_type import MA_Type

__version__ = "0.8.2"
"""The version of TA-Lib's Python package whose interface this is."""

__ta_version__ = b"0.8.1 (gpuforge)"

__function_groups__ = _GROUPS


def get_functions() -> list[str]:
    """Names of all functions, group by group."""
    return [name for names in _GROUPS.values() for name in names]


def get_function_groups() -> dict[str, list[str]]:
    """Names of all functions by group."""
    return {group: list(names) for group, names in _GROUPS.items()}


def set_unstable_period(name: str, period: int) -> None:
    """Only 0, TA-Lib's default, is known here."""
    _known(name)
    if period != 0:
        raise NotImplementedError(
            f"an unstable period of {period} for {name}: gpuforge gives every value it has\n"
            f"  hint: set the first {period} values that are not NaN to NaN"
        )


def get_unstable_period(name: str) -> int:
    """Always 0."""
    _known(name)
    return 0


def set_compatibility(value: int) -> None:
    """Only 0, TA-Lib's default, is known here."""
    if value != 0:
        raise NotImplementedError(f"compatibility {value}: gpuforge follows TA-Lib's default, 0")


def get_compatibility() -> int:
    """Always 0."""
    return 0


def _known(name: str) -> None:
    if name.upper() not in _POSITIONS and name.upper() not in ("ALL", "NONE", "FUNC_UNST_ALL"):
        raise Exception(f"{name} not supported by TA-LIB.")


def __getattr__(name: str) -> Any:
    if name == "abstract":
        import importlib

        return importlib.import_module("gpuforge.talib.abstract")
    raise AttributeError(f"module 'gpuforge.talib' has no attribute {name!r}")


__all__ = ["MA_Type", "get_functions", "get_function_groups", *_POSITIONS]
