"""Unstable periods against TA-Lib: every setting with every function and moving-average type."""

from __future__ import annotations

import numpy as np
import pytest

import gpuforge.talib as ours
from test_talib_parity import SHARED, arrays, compare

theirs = pytest.importorskip("talib")

SETTINGS = [
    *("ADX", "ATR", "CMO", "DX", "EMA", "HT_DCPERIOD", "HT_DCPHASE", "HT_PHASOR", "HT_SINE", "HT_TRENDLINE"),
    *("HT_TRENDMODE", "KAMA", "MAMA", "MINUS_DI", "MINUS_DM", "NATR", "PLUS_DI", "PLUS_DM", "RSI", "T3", "RMA", "HA", "RVI"),
]
#: Functions of which TA-Lib's values are others then, not only later ones.
OTHERS = {
    *("KC", "SUPERTREND", "DEMA", "TEMA", "TRIX", "TSI", "MASSI", "MACD", "MACDFIX", "MACDEXT", "SMI", "STOCH", "KDJ"),
    *("MA", "MAVP", "APO", "PPO", "PVO", "BBANDS", "STOCHF", "STOCHRSI"),  # of a mean of means
}
#: Means that rest on rounding errors alone where values do not move, as those of STOCHRSI do for some bars.
ROUNDING = {("STOCHRSI", 6)}
#: All data of a function and its kinds of means, made once.
CASES = [
    (
        name,
        arrays(name, 150, seed=5),
        [{}, *({m: kind for m in means} for kind in range(14) if means and (name, kind) not in ROUNDING)],
    )
    for name in SHARED
    for means in [[p["name"] for p in ours.abstract._table()[name]["params"] if "matype" in p["name"]]]
]


@pytest.fixture
def setting(request):
    both(lambda t: t.set_unstable_period("ALL", 0))
    both(lambda t: t.set_unstable_period(request.param, 7))
    yield request.param
    both(lambda t: t.set_unstable_period("ALL", 0))


def both(call):
    return [call(module) for module in (ours, theirs)]


@pytest.mark.parametrize("setting", SETTINGS, indirect=True)
def test_every_function_with_every_setting(setting):
    refused = 0
    assert both(lambda t: t.get_unstable_period(setting)) == [7, 7]
    for name, data, kinds in CASES:
        for params in kinds:
            want = getattr(theirs, name)(*data, **params)
            try:
                got = getattr(ours, name)(*data, **params)
            except NotImplementedError as error:
                assert name in OTHERS and "hint" in str(error), (name, params)
                refused += 1
                continue
            compare(name, got, want, f"{params}, {setting} waits")
        lookback = their_lookback(name)
        try:
            assert ours.abstract.Function(name).lookback == lookback, name
        except NotImplementedError:
            assert name in OTHERS
    assert refused < 130
    assert refused == 0 or setting in ("EMA", "ATR", "KAMA", "MAMA", "T3", "RMA", "RSI")


def their_lookback(name: str) -> int:
    import talib.abstract

    return talib.abstract.Function(name).lookback


def test_all_settings_at_once():
    both(lambda t: t.set_unstable_period("ALL", 3))
    try:
        data = arrays("EMA", 90, seed=2)
        for name in ("EMA", "RSI", "KAMA", "T3", "CMO"):
            compare(name, *(getattr(t, name)(*data) for t in (ours, theirs)), "all wait")
        assert both(lambda t: t.get_unstable_period("RVI")) == [3, 3]
    finally:
        both(lambda t: t.set_unstable_period("ALL", 0))


def test_short_arrays_and_period_one():
    both(lambda t: t.set_unstable_period("EMA", 5))
    try:
        for n in (0, 1, 3, 8, 9, 40):
            x = arrays("EMA", n, seed=n + 1)[0]
            for call in (lambda t: t.EMA(x, 4), lambda t: t.EMA(x, 1), lambda t: t.MA(x, 1, 1), lambda t: t.MA(x, 4, 1)):
                outcomes = []
                for module in (ours, theirs):
                    try:
                        outcomes.append(call(module))
                    except Exception as error:
                        outcomes.append(type(error))
                if isinstance(outcomes[1], type):
                    assert outcomes[0] is outcomes[1]
                else:
                    compare("EMA", *outcomes, f"of {n} bars")
    finally:
        both(lambda t: t.set_unstable_period("EMA", 0))


@pytest.mark.parametrize("name", ["ADXR", "MFI", "STOCHRSI"])
def test_deprecated_names(name):
    for module in (ours, theirs):
        with pytest.warns(DeprecationWarning, match="no effect"):
            module.set_unstable_period(name, 9)
        with pytest.warns(DeprecationWarning, match="no effect"):
            assert module.get_unstable_period(name) == 0


def test_invalid_settings_raise():
    for call in (
        lambda t: t.set_unstable_period("SMA", 3),
        lambda t: t.get_unstable_period("SMA"),
        lambda t: t.set_unstable_period("EMA", -1),
        lambda t: t.set_unstable_period("EMA", 1 << 40),
    ):
        kinds = []
        for module in (ours, theirs):
            with pytest.raises((KeyError, OverflowError)) as caught:
                call(module)
            kinds.append(caught.type)
        assert kinds[0] is kinds[1]


def test_compatibility_changes_nothing():
    x = arrays("EMA", 60, seed=1)[0]
    before = both(lambda t: t.EMA(x, 5))
    both(lambda t: t.set_compatibility(1))
    assert both(lambda t: t.get_compatibility()) == [0, 0]
    for was, now in zip(before, both(lambda t: t.EMA(x, 5))):
        np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("kind", range(9))
def test_variable_periods_with_long_windows(kind):
    close, _ = arrays("MAVP", 4000, seed=8)
    periods = np.random.default_rng(2).choice([1.0, 2.0, 7.9, 400.0, 1300.0, 5e6, np.nan, -3.0], 4000)
    periods[0] = 30.0
    for least, most in ((2, 1500), (3, 3999), (2, 4001), (1, 1001)):
        call = lambda t: t.MAVP(close, periods, least, most, kind)  # noqa: E731
        compare("MAVP", *both(call), f"{least} to {most}, kind {kind}")
        assert ours.abstract.Function("MAVP", minperiod=least, maxperiod=most, matype=kind).lookback == their(
            minperiod=least, maxperiod=most, matype=kind
        )


def their(**params: int) -> int:
    import talib.abstract

    return talib.abstract.Function("MAVP", **params).lookback
