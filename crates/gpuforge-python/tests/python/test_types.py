"""Types and examples: mypy finds nothing, and every docstring's example gives what it says."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpuforge

PACKAGE = Path(gpuforge.__file__).parent
MODULES = ["_indicators", "_lattice", "_machine", "_runtime", "ops", "profiler", "talib", "talib.abstract", "talib.func", "talib.stream", "trajectory"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"gpuforge.{name}")
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0 and found.attempted > 0


def test_types(tmp_path):
    pytest.importorskip("mypy")
    # An installed package is found by itself; sources beside it have to be named.
    installed = PACKAGE.parent.name == "site-packages"
    env = os.environ | ({} if installed else {"MYPYPATH": str(PACKAGE.parent)})
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "-p", "gpuforge"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


PROGRAM = """
import numpy as np
import gpuforge
import gpuforge.talib as talib
from gpuforge.talib import abstract, func, stream

bars = {"close": np.ones(50)}
out = gpuforge.indicators(bars, "rsi(14)", device="cpu")
column: np.ndarray = out["rsi_14"]
rsi = talib.RSI(bars["close"], timeperiod=14)
same: np.ndarray = func.RSI(bars["close"], timeperiod=14)
upper, middle, lower = talib.BBANDS(bars["close"])
names: list[str] = abstract.Function("macd").output_names
handle = stream.SMA(bars["close"], timeperiod=5)
first: int = handle.out_range.begidx
forge = gpuforge.Forge(device="cpu")
place: str = forge.run(gpuforge.ops.sum(np.ones(4, np.float32))).report.place
with gpuforge.profile("name"):
    text: str | None = gpuforge.profiler.export_json()
"""


def test_types_by_pyright(tmp_path):
    pytest.importorskip("pyright")
    (tmp_path / "program.py").write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "program.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    if "error" not in checked.stdout and checked.returncode != 0:
        pytest.skip(f"pyright cannot be run here: {checked.stderr.strip().splitlines()[-1:]}")
    assert checked.returncode == 0, checked.stdout


def test_stubs_cover_the_extension_module():
    import ast

    from gpuforge import _gpuforge

    tree = ast.parse((PACKAGE / "_gpuforge.pyi").read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    there = {name for name in dir(_gpuforge) if not name.startswith("__")}
    assert set(stubs) == there
    for name, node in stubs.items():
        if isinstance(node, ast.ClassDef):
            names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            assert names <= set(dir(getattr(_gpuforge, name))), name


def test_public_names_exist():
    assert (PACKAGE / "py.typed").exists()
    for name in gpuforge.__all__:
        assert getattr(gpuforge, name) is not None
        assert name in dir(gpuforge)
    with pytest.raises(AttributeError, match="nonsense"):
        gpuforge.nonsense
