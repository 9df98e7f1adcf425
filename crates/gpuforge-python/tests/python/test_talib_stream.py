"""Streaming handles, one bar at a time, against TA-Lib's and against the functions."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gpuforge.talib as ours
import gpuforge.talib.stream as our_stream
from test_talib_parity import BOUND, MISTAKES, SHARED, arrays, columns, raised

theirs = pytest.importorskip("talib")
their_stream = pytest.importorskip("talib.stream")
if not hasattr(their_stream, "Stream"):
    pytest.skip("this TA-Lib has no handles", allow_module_level=True)


def close(got, want, scale: float = 1.0) -> bool:
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    return len(got) == len(want) and all(
        type(g) is type(w) and (g == w or abs(g - w) <= BOUND * max(abs(w), scale)) for g, w in zip(got, want)
    )


@pytest.mark.parametrize("name", SHARED)
def test_every_function(name):
    data = arrays(name, 260, seed=4)
    scale = max(1.0, max(float(np.abs(c).max()) for c in data))
    history, rest = [c[:200] for c in data], [c[200:] for c in data]
    mine, other = (getattr(s, name)(*history) for s in (our_stream, their_stream))
    assert close(mine.value, other.value, scale)
    whole = [c.astype(float) for c in columns(getattr(ours, name)(*data, precision="exact"))]
    for at, bar in enumerate(zip(*rest)):
        bar = tuple(map(float, bar))
        peeked = mine.peek(*bar)
        got, want = mine.update(*bar), other.update(*bar)
        assert close(got, want, scale), (name, at, got, want)
        assert peeked == got == mine.value
        # To the last bit what the function has for the same bar.
        assert [float(x) for x in (got if isinstance(got, tuple) else (got,))] == [c[200 + at] for c in whole], (name, at)
    assert tuple(mine.out_range) == tuple(other.out_range)


def test_insufficient_history():
    for name in ("SMA", "RSI", "MACD", "HT_SINE", "CDLDOJI", "MAXINDEX", "ADX"):
        data = arrays(name, 120, seed=1)
        for n in range(0, 100, 3):
            outcomes = [raised(s, lambda s: getattr(s, name)(*[c[:n] for c in data])) for s in (our_stream, their_stream)]
            mine, other = outcomes
            assert (mine is None) == (other is None), (name, n)
            if mine is not None:
                assert issubclass(mine[0], ours.InsufficientHistory) and mine[1] == other[1]


def test_leading_nan_is_not_history():
    for name in ("SMA", "MAXINDEX", "MINMAXINDEX", "ATR"):
        data = arrays(name, 120, seed=1)
        for column, length in zip(data, (9, 4, 17)):
            column[:length] = np.nan
        mine, other = (getattr(s, name)(*data) for s in (our_stream, their_stream))
        assert close(mine.value, other.value) and tuple(mine.out_range) == tuple(other.out_range)


def test_rejected_bar_leaves_the_state_unchanged():
    data = arrays("RSI", 60, seed=1)
    mine, other = our_stream.RSI(*data), their_stream.RSI(*data)
    before = mine.value
    for bar in ((np.nan,), (np.inf,), (1.0, 2.0), (), ("x",)):
        for method in ("update", "peek"):
            got, want = (raised(handle, lambda h: getattr(h, method)(*bar)) for handle in (mine, other))
            assert got[0] is want[0]
            if want[0] is Exception or len(bar) != 1:
                assert got[1] == want[1]
    assert mine.value == before and mine.out_range == tuple(other.out_range)
    assert close(mine.update(101.5), other.update(101.5))


def test_copies_are_independent():
    data = arrays("MACD", 90, seed=1)
    for make in (lambda h: h.copy(), copy.copy, copy.deepcopy):
        first = our_stream.MACD(*data, fastperiod=5)
        second = make(first)
        first.update(200.0)
        assert second.value != first.value and type(second) is type(first)
        assert second.update(200.0) == first.value
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(our_stream.MACD(*data))


def test_advance_counts():
    x = arrays("MAXINDEX", 60, seed=1)
    mine, other = our_stream.MAXINDEX(*x, 5), their_stream.MAXINDEX(*x, 5)
    for handle in (mine, other):
        handle.advance()
        handle.advance()
    assert tuple(mine.out_range) == tuple(other.out_range)
    assert mine.update(1e6) == other.update(1e6)


def test_open_and_fill():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    x = arrays("SMA", 60, seed=1)[0]
    handle, filled = our_stream.SMA.open_and_fill(x, timeperiod=5)
    np.testing.assert_array_equal(filled, ours.SMA(x, timeperiod=5, precision="exact"))
    assert handle.value == filled[-1] and isinstance(handle, our_stream.Stream)
    for series in (pandas.Series(x), polars.Series(x)):
        handle, filled = our_stream.SMA.open_and_fill(series, timeperiod=5)
        assert type(filled) is type(series) and handle.value == filled.to_numpy()[-1]


def test_errors_match_talib():
    for what in ("lengths", "whole numbers", "float32", "two dimensions", "a list", "a negative period", "a kind of mean"):
        assert raised(our_stream, MISTAKES[what]) == raised(their_stream, MISTAKES[what]), what


def test_unstable_periods_need_more_history():
    x = arrays("EMA", 40, seed=1)[0]
    for module in (ours, theirs):
        module.set_unstable_period("EMA", 6)
    try:
        for n in (29, 30, 35, 36):
            mine, other = (raised(s, lambda s: s.EMA(x[:n])) for s in (our_stream, their_stream))
            assert (mine is None) == (other is None), n
        del mine, other
    finally:
        for module in (ours, theirs):
            module.set_unstable_period("EMA", 0)


def test_names():
    assert set(our_stream.__all__) == set(their_stream.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        our_stream.nonsense
