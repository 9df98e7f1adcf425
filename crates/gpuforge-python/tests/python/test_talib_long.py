"""Long arrays against TA-Lib: recurrences are computed as prefix scans there, within tolerance."""

from __future__ import annotations

import numpy as np
import pytest

import gpuforge
import gpuforge.talib as ours
from test_talib_parity import SHARED, arrays, compare

theirs = pytest.importorskip("talib")

#: Lengths about where pieces begin, of some blocks, and with a rest.
LENGTHS = (4095, 4096, 9_973, 40_001)


@pytest.mark.parametrize("name", SHARED)
def test_long_arrays(name):
    for n in LENGTHS:
        data = arrays(name, n, seed=n)
        compare(name, getattr(ours, name)(*data), getattr(theirs, name)(*data), f"of {n} bars")


@pytest.mark.parametrize("name", SHARED)
def test_constant_segments(name):
    """Bars that do not move, without volume: sums of nothing."""
    data = arrays(name, 12_000, seed=3)
    for column in data:
        for first, length in ((500, 90), (3_000, 400), (5_990, 60), (9_000, 200)):
            column[first : first + length] = column[first]
    compare(name, getattr(ours, name)(*data), getattr(theirs, name)(*data), "with constant segments")


@pytest.mark.parametrize("name", ["MAMA", *(n for n in SHARED if n.startswith("HT_"))])
def test_prices_in_cents(name):
    """The phase jumps by 180 degrees where a component is 0 but for rounding, as it often is with prices in ticks."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        ticks = rng.choice([-1, 0, 1], 100_000, p=[0.1, 0.8, 0.1]) if seed else rng.integers(-9, 10, 100_000)
        price = (100_000 + ticks.cumsum()) / 100
        compare(name, getattr(ours, name)(price), getattr(theirs, name)(price), f"in cents, seed {seed}")


#: Functions and what they are in a selection, where every bar is computed from the one before.
SELECTED = {
    "SMA": "sma(30)",
    "EMA": "ema(30)",
    "WMA": "wma(30)",
    "RSI": "rsi(14)",
    "ATR": "atr(14)",
    "ADX": "adx(14)",
    "MFI": "mfi(14)",
    "OBV": "obv",
    "SUM": "sum(30)",
    "TRIX": "trix(30)",
    "AD": "ad",
    "ADOSC": "adosc(3,10)",
}


@pytest.mark.parametrize("name", SELECTED)
def test_nan_gap_propagates(name):
    """What a NaN amid the bars does to those after it is the same, whichever piece it is in."""
    inputs = ours.abstract._table()[name]["inputs"]
    for at in (700, 5_000, 5_013, 11_990):
        data = arrays(name, 12_000, seed=6)
        for column in data:
            column[at] = np.nan
        got = getattr(ours, name)(*data)
        bars = {"close" if column.startswith("real") else column: data[i] for i, column in enumerate(inputs)}
        [want] = gpuforge.indicators(bars, SELECTED[name], device="cpu").values()
        compare(name, got, want, f"with a gap at {at}")
    again = getattr(ours, name)(*data)
    np.testing.assert_array_equal(got, again)


@pytest.mark.parametrize("name", ["SMA", "EMA", "STDDEV", "ATR", "RSI", "WMA"])
def test_price_jump(name):
    """Values that are a million times as great for some bars leave rounding errors in running sums."""
    data = arrays(name, 12_000, seed=6)
    for column in data:
        column[4_000:4_010] *= 1e6
    got, want = getattr(ours, name)(*data), getattr(theirs, name)(*data)
    finite = ~np.isnan(want)
    assert np.array_equal(finite, ~np.isnan(got))
    assert np.abs(got[finite] - want[finite]).max() <= 1e-9 * np.abs(want[finite]).max()
