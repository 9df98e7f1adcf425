"""TA-Lib's defaults (input columns, parameters), rows of two sources, and ``talib.func``, against TA-Lib."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import gpuforge
import gpuforge.talib as ours
import gpuforge.talib.abstract as our_abstract
from conftest import walk

FACTS = Path(__file__).parents[3] / "gpuforge-indicators/tests/talib_defaults.txt"


def described(abstract, name) -> str:
    """A function's line of talib_defaults.txt."""
    info = abstract.Function(name).info
    inputs: list[str] = []
    for series in info["input_names"].values():
        inputs += series if isinstance(series, list) else [series]
    return " ".join([name, ",".join(inputs), *(f"{param}={value:g}" for param, value in info["parameters"].items())])


def recorded() -> tuple[str, dict[str, str]]:
    head, *lines = FACTS.read_text().splitlines()
    return head, {line.split()[0]: line for line in lines}


def test_defaults_are_the_recorded_ones():
    lines = recorded()[1]
    assert sorted(lines) == sorted(ours.get_functions())
    for name, line in lines.items():
        assert described(our_abstract, name) == line


def test_recorded_defaults_are_those_of_the_installed_package():
    theirs = pytest.importorskip("talib")
    their_abstract = pytest.importorskip("talib.abstract")
    head, lines = recorded()
    if f"TA-Lib {theirs.__version__} " not in head:
        pytest.skip(f"TA-Lib {theirs.__version__} is installed, and the record is of another: {head}")
    assert {name: described(their_abstract, name) for name in theirs.get_functions()} == lines


@pytest.mark.parametrize("name", ["ADD", "SUB", "MULT", "DIV", "BETA", "CORREL"])
def test_pairs(name):
    """By name in a selection, by arrays, and by the abstract interface: high and low, or any two, in order."""
    theirs = pytest.importorskip("talib")
    their_abstract = pytest.importorskip("talib.abstract")
    bars = walk(300)
    mine, other = our_abstract.Function(name), their_abstract.Function(name)
    assert mine.input_names == other.input_names == {"price0": "high", "price1": "low"}
    close = {"rtol": 1e-9, "atol": 1e-12, "equal_nan": True}
    selected = gpuforge.indicators(bars, f"{name}, {name}(source=close,volume), {name}(close, open), {name}(volume)")
    lower = name.lower()
    period = "".join(f"_{value}" for value in mine.parameters.values())
    pairs = {
        f"{lower}{period}": ("high", "low"),
        f"{lower}{period}_close_volume": ("close", "volume"),
        f"{lower}{period}_close_open": ("close", "open"),
        f"{lower}{period}_volume_low": ("volume", "low"),
    }
    assert list(pairs) == [column for column in selected if column in pairs]
    for column, (first, second) in pairs.items():
        want = getattr(theirs, name)(bars[first], bars[second])
        np.testing.assert_allclose(getattr(ours, name)(bars[first], bars[second]), want, **close)
        np.testing.assert_allclose(mine(bars, price0=first, price1=second), want, **close)
        np.testing.assert_allclose(other(bars, price0=first, price1=second), want, **close)
        np.testing.assert_allclose(selected[column], want, **close)
    np.testing.assert_allclose(mine(bars), other(bars), **close)


def test_func():
    from gpuforge.talib import func

    assert ours.func is func
    for name in ours.get_functions():
        assert getattr(func, name) is getattr(ours, name)
    assert set(ours.get_functions()) <= set(dir(func)) and func.MA_Type is ours.MA_Type
    theirs = pytest.importorskip("talib")
    from talib import func as their_func

    assert ours.__TA_FUNCTION_NAMES__ == theirs.__TA_FUNCTION_NAMES__
    close = walk(60)["close"]
    for name in theirs.get_functions():
        assert callable(getattr(their_func, name))
        assert list(inspect.signature(getattr(func, name)).parameters)
    np.testing.assert_allclose(func.SMA(close, timeperiod=5), their_func.SMA(close, timeperiod=5), rtol=1e-9)


@pytest.mark.parametrize("name", ["SMA", "CDLDOJI", "MACD", "MAXINDEX"])
def test_empty_input_gives_empty_output_and_checks_no_parameter(name):
    theirs = pytest.importorskip("talib")
    columns = [np.empty(0)] * (4 if name == "CDLDOJI" else 1)
    parameters = {"timeperiod": 0} if name in ("SMA", "MAXINDEX") else {}
    got, want = (getattr(library, name)(*columns, **parameters) for library in (ours, theirs))
    for ours_, theirs_ in zip(got if isinstance(got, tuple) else [got], want if isinstance(want, tuple) else [want]):
        assert len(ours_) == 0
        assert ours_.dtype == theirs_.dtype
