"""Fixtures: bars to test with, the tolerance of comparisons, and what a test does without a GPU adapter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

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


def _log_adapter(word: str, test: str) -> None:
    """Appends the line that `cargo xtask test` counts, as gpuforge_testkit::adapter does."""
    if path := os.environ.get("GPUFORGE_ADAPTER_LOG"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"{word}\tpytest\t{test}\n")


class Adapter:
    """The GPU adapter of a test: ran on one, or skipped; GPUFORGE_REQUIRE_ADAPTER=1 fails instead."""

    def __init__(self, test: str) -> None:
        self.test = test

    def ran(self) -> None:
        _log_adapter("ran", self.test)

    def missing(self, why: object) -> NoReturn:
        if os.environ.get("GPUFORGE_REQUIRE_ADAPTER") == "1":
            pytest.fail(f"no GPU adapter, and GPUFORGE_REQUIRE_ADAPTER=1 requires one: {why}")
        _log_adapter("skipped", self.test)
        pytest.skip(f"{self.test} (no GPU adapter)")


@pytest.fixture
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return Adapter(request.node.name)
