"""Fixtures: bars to test with, and the tolerance of comparisons."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))


def walk(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    """A random walk in cents, with gaps and quiet bars."""
    rng = np.random.default_rng(seed)
    close = np.round(100 + rng.normal(0, 0.7, n).cumsum(), 2)
    close = np.abs(close) + 1
    open_ = np.round(close + rng.normal(0, 0.5, n), 2).clip(0.5)
    high = np.round(np.maximum(open_, close) + np.abs(rng.normal(0, 0.3, n)), 2)
    low = np.round(np.minimum(open_, close) - np.abs(rng.normal(0, 0.3, n)), 2).clip(0.25)
    volume = np.floor(rng.random(n) * 10_000) * (rng.random(n) > 0.01)
    return {"open": open_, "high": high, "low": low, "close": close, "volume": volume}


@pytest.fixture
def bars() -> dict[str, np.ndarray]:
    return walk(500)
