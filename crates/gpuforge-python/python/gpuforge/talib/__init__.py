"""A drop-in for TA-Lib: ``import gpuforge.talib as talib``.

The same names, arguments, defaults, types and errors; NaN before the first value, integer outputs as ``int32``; accepts and
returns pandas and Polars Series.

>>> import numpy as np
>>> SMA(np.array([1.0, 2.0, 3.0, 4.0]), timeperiod=2)
array([nan, 1.5, 2.5, 3.5])
>>> "RSI" in get_functions()
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuforge import _gpuforge
from gpuforge._gpuforge import InsufficientHistory
from gpuforge.talib import _functions
from gpuforge.talib._functions import *  # noqa: F403
from gpuforge.talib._functions import GROUPS as _GROUPS
from gpuforge.talib._functions import POSITIONS as _POSITIONS
from gpuforge.talib._ma_type import MA_Type

if TYPE_CHECKING:
    from gpuforge.talib._functions import Precision

__version__ = "0.8.2"
"""The version of TA-Lib's Python package whose interface this is."""

__ta_version__ = b"0.8.1 (gpuforge)"

__function_groups__ = _GROUPS

#: Names of all functions in alphabetical order.
__TA_FUNCTION_NAMES__ = sorted(_POSITIONS)


def get_functions() -> list[str]:
    """Names of all functions, group by group."""
    return [name for names in _GROUPS.values() for name in names]


def get_function_groups() -> dict[str, list[str]]:
    """Names of all functions by group."""
    return {group: list(names) for group, names in _GROUPS.items()}


#: Deprecated settings, with TA-Lib's messages.
_RETIRED = {
    "ADXR": "ADXR has no unstable period of its own; it follows the inner ADX. Set 'ADX' instead.",
    "MFI": "MFI's unstable period was retired in TA-Lib C.",
    "STOCHRSI": "STOCHRSI has no unstable period of its own; it follows the inner RSI. Set 'RSI' instead.",
}


def _retired(name: str) -> bool:
    if name in _RETIRED:
        import warnings

        why = f"unstable period '{name}' is deprecated and has no effect: {_RETIRED[name]}"
        warnings.warn(why, DeprecationWarning, stacklevel=3)
    return name in _RETIRED


def set_unstable_period(name: str, period: int) -> None:
    """Sets the unstable period of a recursive function: `period` more bars of NaN; ``"ALL"`` sets all.

    Functions that contain such a function start later too. A few would start with different values (for example MACD with an
    unstable period of EMA): these raise ``NotImplementedError`` until it is 0 again.

    >>> import numpy as np
    >>> set_unstable_period("EMA", 1)
    >>> EMA(np.array([1.0, 2.0, 3.0, 4.0]), timeperiod=2)
    array([nan, nan, 2.5, 3.5])
    >>> set_unstable_period("EMA", 0)
    """
    if not _retired(name):
        _gpuforge.talib_set_unstable(name, int(period))


def get_unstable_period(name: str) -> int:
    """Unstable period of a function."""
    return 0 if _retired(name) else _gpuforge.talib_unstable(name)


def set_precision(precision: Precision) -> None:
    """Sets how float outputs are computed where a call has no ``precision``: ``"fast"``, the default, or ``"exact"``.

    ``"fast"`` reassociates sums: twelve digits, at every number of rows. ``"exact"`` gives the bits of the sequential recurrence,
    those of `gpuforge.indicators`. Integer outputs and streams are always exact. The setting is one for all threads of the
    process; a call that has begun keeps what it began with.

    >>> import numpy as np
    >>> set_precision("exact")
    >>> get_precision()
    'exact'
    >>> set_precision("fast")
    >>> SMA(np.array([1.0, 2.0, 3.0, 4.0]), timeperiod=2, precision="exact")
    array([nan, 1.5, 2.5, 3.5])
    """
    _gpuforge.talib_set_precision(precision)


def get_precision() -> Precision:
    """How float outputs are computed where a call has no ``precision``."""
    return _gpuforge.talib_precision()


def set_compatibility(value: int) -> None:
    """Does nothing, as in TA-Lib since 0.8."""


def get_compatibility() -> int:
    """Always 0, as in TA-Lib since 0.8."""
    return 0


def __getattr__(name: str) -> Any:
    if name in ("abstract", "func", "stream"):
        import importlib

        return importlib.import_module(f"gpuforge.talib.{name}")
    raise AttributeError(f"module 'gpuforge.talib' has no attribute {name!r}")


__all__ = ["InsufficientHistory", "MA_Type", "get_functions", "get_function_groups", *_POSITIONS]
