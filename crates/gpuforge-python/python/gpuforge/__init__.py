"""Technical indicators over many series, a drop-in for TA-Lib, and a runtime that routes work to the fastest device.

To begin with::

    import gpuforge
    out = gpuforge.indicators(bars, "rsi(14), macd(12,26,9), bbands(20)")

``bars`` is a pandas, Polars or pyarrow table, a DuckDB relation or a dict of NumPy arrays, and ``out`` is of the same type.
A program that was written for TA-Lib runs unchanged after ``import gpuforge.talib as talib``.

Imports are lazy: ``import gpuforge`` loads no GPU library and no NumPy.
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from gpuforge._gpuforge import (
    ColumnError,
    DeviceError,
    DeviceMemoryError,
    ForgeError,
    SelectError,
)

if _TYPE_CHECKING:
    from gpuforge import ops as ops
    from gpuforge import profiler as profiler
    from gpuforge import talib as talib
    from gpuforge import trajectory as trajectory
    from gpuforge._indicators import catalogue as catalogue
    from gpuforge._indicators import indicators as indicators
    from gpuforge._lattice import Lattice as Lattice
    from gpuforge._machine import detect as detect
    from gpuforge._machine import doctor as doctor
    from gpuforge._machine import explain as explain
    from gpuforge._machine import recommend_env as recommend_env
    from gpuforge._machine import status as status
    from gpuforge._runtime import Forge as Forge
    from gpuforge.profiler import profile as profile
    from gpuforge.profiler import profiled as profiled

__version__ = "0.1.0"

# Lazy imports: module of each public name.
_LAZY = {
    "Forge": "_runtime",
    "Lattice": "_lattice",
    "catalogue": "_indicators",
    "detect": "_machine",
    "doctor": "_machine",
    "explain": "_machine",
    "indicators": "_indicators",
    "ops": "ops",
    "profile": "profiler",
    "profiled": "profiler",
    "profiler": "profiler",
    "recommend_env": "_machine",
    "status": "_machine",
    "talib": "talib",
    "trajectory": "trajectory",
}

__all__ = [
    "ColumnError",
    "DeviceError",
    "DeviceMemoryError",
    "ForgeError",
    "SelectError",
    *_LAZY,
]


def __getattr__(name: str) -> object:
    where = _LAZY.get(name)
    if where is None:
        raise AttributeError(f"module 'gpuforge' has no attribute {name!r}")
    __import__(f"gpuforge.{where}")
    module = _sys.modules[f"gpuforge.{where}"]
    value = module if where == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
