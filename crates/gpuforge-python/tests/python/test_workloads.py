"""Lattices and trajectories against closed forms; errors."""

from __future__ import annotations

import numpy as np
import pytest

import gpuforge
from gpuforge import trajectory


def test_paths_and_distances():
    grid = gpuforge.Lattice((20, 30))
    path = grid.path((0, 0), (19, 29))
    assert path.shape == (49, 2) and (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()
    x, y = np.indices((20, 30))
    assert np.array_equal(grid.distances((3, 4)), np.abs(x - 3) + np.abs(y - 4))
    assert grid.analyse().vertices == 600 and repr(grid) == "Lattice((20, 30))"
    cube = gpuforge.Lattice(4, size=5, blocked=0.2, seed=7, keep=[0, 624])
    found = cube.path(0, 624)
    assert found is None or len(found) >= 17
    costly = gpuforge.Lattice((3, 3), weights=[[1, 9, 1], [1, 9, 1], [1, 1, 1]])
    assert len(costly.path((0, 0), (0, 2))) == 7


def test_invalid_grids_raise():
    for call in (
        lambda: gpuforge.Lattice((0, 3)),
        lambda: gpuforge.Lattice((3, 3)).path((9, 9), (0, 0)),
        lambda: gpuforge.Lattice((3, 3), weights=[1.0]),
    ):
        with pytest.raises(ValueError):
            call()


def test_flights():
    out = trajectory.fly(speed=np.array([30.0, 40.0]), angle=45.0, vacuum=True)
    np.testing.assert_allclose(out["carry"], np.array([30.0, 40.0]) ** 2 / 9.80665, rtol=1e-6)
    assert out["status"] == ["landed", "landed"]
    with_wind = trajectory.fly(speed=60.0, angle=15.0, spin=2500.0, wind=8.0, wind_profile="log")
    without = trajectory.fly(speed=60.0, angle=15.0, spin=2500.0, tolerance=1e-3)
    assert with_wind["carry"][0] < without["carry"][0]
    bad = trajectory.fly(speed=[50.0, 5000.0], angle=10.0)
    assert bad["status"][0] == "landed" and "speed" in bad["status"][1] and np.isnan(bad["carry"][1])


def test_invalid_launches_raise():
    for given, kind in (({"sped": 1.0}, TypeError), ({"speed": 1.0, "wind_profile": "x"}, ValueError)):
        with pytest.raises(kind, match="hint"):
            trajectory.fly(**given)
    with pytest.raises(ValueError, match="one launch"):
        trajectory.path(speed=[1.0, 2.0])
    with pytest.raises(ValueError, match="mass"):
        trajectory.fly(speed=1.0, mass=-1.0)
