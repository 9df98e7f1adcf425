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
MODULES = ["_indicators", "_lattice", "_machine", "_runtime", "ops", "profiler", "talib", "talib.abstract", "talib.stream", "trajectory"]


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


def test_stubs_name_all_that_is_compiled():
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


def test_everything_promised_is_there():
    assert (PACKAGE / "py.typed").exists()
    for name in gpuforge.__all__:
        assert getattr(gpuforge, name) is not None
        assert name in dir(gpuforge)
    with pytest.raises(AttributeError, match="nonsense"):
        gpuforge.nonsense
