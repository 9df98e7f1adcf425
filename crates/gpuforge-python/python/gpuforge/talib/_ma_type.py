"""Moving-average types (``MA_Type``) by TA-Lib's numbers."""

from __future__ import annotations


class _Kinds:
    """``MA_Type.EMA`` is a number, ``MA_Type[1]`` its display name."""

    SMA, EMA, WMA, DEMA, TEMA, TRIMA, KAMA, MAMA, T3, HMA, DISABLED, DEFAULT, ZLEMA, RMA = range(14)

    _NAMES = (
        "Simple Moving Average",
        "Exponential Moving Average",
        "Weighted Moving Average",
        "Double Exponential Moving Average",
        "Triple Exponential Moving Average",
        "Triangular Moving Average",
        "Kaufman Adaptive Moving Average",
        "MESA Adaptive Moving Average",
        "Triple Generalized Double Exponential Moving Average",
        "Hull Moving Average",
        "No Moving Average (identity)",
        "The Function's Own Default Moving Average",
        "Zero-Lag Exponential Moving Average",
        "Wilder's Smoothed Moving Average",
    )

    def __getitem__(self, kind: int) -> str:
        if not 0 <= kind < len(self._NAMES):
            raise KeyError(kind)
        return self._NAMES[kind]


MA_Type = _Kinds()
