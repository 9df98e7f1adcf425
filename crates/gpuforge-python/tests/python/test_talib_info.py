"""The abstract interface and its function table, against TA-Lib's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gpuforge.talib as ours
import gpuforge.talib.abstract as our_abstract
from conftest import walk

theirs = pytest.importorskip("talib")
their_abstract = pytest.importorskip("talib.abstract")


@pytest.mark.parametrize("name", ours.get_functions())
def test_info(name):
    mine, other = our_abstract.Function(name).info, their_abstract.Function(name).info
    assert mine == other
    assert our_abstract.Function(name).lookback == their_abstract.Function(name).lookback


def test_groups():
    assert ours.get_function_groups() == theirs.get_function_groups()
    assert ours.get_functions() == theirs.get_functions()


def test_ma_types():
    for name in ("SMA", "EMA", "WMA", "DEMA", "TEMA", "TRIMA", "KAMA", "MAMA", "T3", "HMA", "ZLEMA", "RMA"):
        assert getattr(ours.MA_Type, name) == getattr(theirs.MA_Type, name)
        assert ours.MA_Type[getattr(ours.MA_Type, name)] == theirs.MA_Type[getattr(theirs.MA_Type, name)]


def both(call):
    outcomes = []
    for abstract in (our_abstract, their_abstract):
        try:
            outcomes.append(call(abstract))
        except Exception as error:
            outcomes.append((type(error), re.sub(r"0x[0-9a-f]+", "", str(error))))
    return outcomes


CALLS = {
    "a dict": lambda a: a.SMA(walk(60), timeperiod=5),
    "another column": lambda a: a.SMA(walk(60), timeperiod=5, price="open"),
    "arrays one by one": lambda a: a.ATR(walk(60)["high"], walk(60)["low"], walk(60)["close"], 7),
    "several outputs": lambda a: a.MACD(walk(90)),
    "run": lambda a: a.Function("rsi").run(walk(60)),
    "set beforehand": lambda a: a.Function("ema", walk(60), 9).outputs,
    "too few arrays": lambda a: a.ATR(walk(60)["high"]),
    "too many arrays": lambda a: a.SMA(*[walk(60)["high"]] * 2),
    "nothing": lambda a: a.Function("sma")(),
    "a column that is missing": lambda a: a.ATR({"close": walk(60)["close"]}),
    "a parameter of another type": lambda a: a.SMA(walk(60), timeperiod=5.5),
    "an unknown function": lambda a: a.Function("nonsense"),
    "input names": lambda a: a.Function("STOCH").input_names,
}


@pytest.mark.parametrize("what", CALLS)
def test_calls(what):
    mine, other = both(CALLS[what])
    if isinstance(other, (np.ndarray, list)):
        assert type(mine) is type(other)
        np.testing.assert_allclose(mine, other, rtol=1e-9, equal_nan=True)
    else:
        assert mine == other


def test_call_parameters_are_not_kept():
    function = our_abstract.Function("sma", timeperiod=7)
    function(walk(50), timeperiod=3)
    assert function.parameters["timeperiod"] == 7
    # OrderedDict shows pairs before Python 3.12, a dict from then on.
    shown = repr(function)
    assert "timeperiod: 7" in str(function) and ("'timeperiod': 7" in shown or "'timeperiod', 7" in shown)


def test_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    bars = walk(80)
    mine, other = both(lambda a: a.BBANDS(pandas.DataFrame(bars)))
    pandas.testing.assert_frame_equal(mine, other, rtol=1e-9)
    mine, other = both(lambda a: a.RSI(polars.DataFrame(bars)))
    assert isinstance(mine, polars.Series) and isinstance(other, polars.Series)
    np.testing.assert_allclose(mine.to_numpy(), other.to_numpy(), rtol=1e-9)


def test_functions_file_is_up_to_date():
    import talib_functions

    import gpuforge.talib._functions as module

    assert Path(module.__file__).read_text() == talib_functions.text(), "run tools/talib_functions.py"
