"""TA-Lib's function interface by itself: ``from gpuforge.talib import func``; the functions of ``gpuforge.talib``.

>>> import numpy as np
>>> from gpuforge.talib import func
>>> func.SMA(np.array([1.0, 2.0, 3.0, 4.0]), timeperiod=2)
array([nan, 1.5, 2.5, 3.5])
>>> func.RSI is __import__("gpuforge.talib", fromlist=["RSI"]).RSI
True
"""

from __future__ import annotations

from gpuforge._gpuforge import InsufficientHistory
from gpuforge.talib._functions import *  # noqa: F403
from gpuforge.talib._functions import POSITIONS as _POSITIONS
from gpuforge.talib._ma_type import MA_Type

__all__ = ["InsufficientHistory", "MA_Type", *_POSITIONS]
