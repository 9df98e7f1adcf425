"""Ball trajectories: one launch or millions; landing points, or every step.

>>> from gpuforge import trajectory
>>> flight = trajectory.fly(speed=70.0, angle=12.0, spin=2600.0)
>>> bool(flight["carry"][0] > 180), flight["status"][0]
(True, 'landed')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuforge import _gpuforge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Fields of a launch: m/s, degrees, degrees, rpm, degrees, m.
FIELDS = ("speed", "angle", "azimuth", "spin", "tilt", "height")
#: Figures of a flight.
FIGURES = (
    "carry",
    "downrange",
    "lateral",
    "apex",
    "apex_time",
    "time",
    "landing_speed",
    "landing_angle",
    "landing_spin",
    "steps",
)
#: Conditions shared by all flights; see docs/trajectory.md.
CONDITIONS = (
    "mass",
    "radius",
    "spin_decay",
    "altitude",
    "temperature",
    "humidity",
    "pressure",
    "vacuum",
    "wind",
    "wind_from",
    "wind_profile",
    "step",
    "tolerance",
)


def _split(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    import numpy as np

    unknown = [name for name in given if name not in FIELDS and name not in CONDITIONS]
    if unknown:
        raise TypeError(f"{unknown[0]!r} is neither a field of a launch nor a condition\n  hint: {FIELDS + CONDITIONS}")
    columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(given.get(name, 0.0), float)) for name in FIELDS))
    conditions = {name: given.get(name) for name in CONDITIONS}
    conditions["vacuum"] = bool(given.get("vacuum", False))
    return np.stack(columns, axis=1), conditions


def fly(**given: Any) -> dict[str, Any]:
    """Landing points of launches: ``fly(speed=speeds, angle=12.0, wind=5.0)``; arguments broadcast as in NumPy.

    Launch fields are ``FIELDS``, shared conditions are ``CONDITIONS``. The result has an array for each of ``FIGURES`` and
    ``status``: how each flight ended, or why the launch is invalid.
    """
    launches, conditions = _split(given)
    figures, ended = _gpuforge.trajectory_fly(launches.tolist(), conditions)
    return dict(zip(FIGURES, figures)) | {"status": ended}


def path(**given: Any) -> dict[str, NDArray[np.float64]]:
    """Every step of one flight: time, position, velocity, spin.

    >>> steps = path(speed=30.0, angle=45.0, vacuum=True)
    >>> bool(steps["y"].max() > 20)
    True
    """
    launches, conditions = _split(given)
    if len(launches) != 1:
        raise ValueError(f"path() takes one launch, not {len(launches)}")
    points = _gpuforge.trajectory_path(launches[0].tolist(), conditions).reshape(-1, 8)
    names = ("time", "x", "y", "z", "vx", "vy", "vz", "spin")
    return {name: points[:, at] for at, name in enumerate(names)}
