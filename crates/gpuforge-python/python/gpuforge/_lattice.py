"""Lattices: shortest paths, distances and graph statistics of d-dimensional grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence, Union

from gpuforge import _gpuforge
from gpuforge._records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Cell = Union[int, Sequence[int]]


class Lattice:
    """A grid of any dimension: ``Lattice((100, 100))``, or ``Lattice(4, size=10)`` for four axes of ten points.

    ``blocked`` lists blocked cells, or is the probability that a cell is blocked; ``weights`` are the costs of entering cells.

    >>> import gpuforge
    >>> grid = gpuforge.Lattice((5, 5), blocked=[(1, 0), (1, 1), (1, 2), (1, 3)])
    >>> len(grid.path((0, 0), (2, 0))) - 1
    10
    >>> gpuforge.Lattice((3, 3), blocked=[(0, 1), (1, 0), (1, 1)]).path((0, 0), (2, 2)) is None
    True
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        *,
        size: int | None = None,
        blocked: float | Sequence[Cell] | None = None,
        seed: int = 0,
        keep: Sequence[Cell] = (),
        weights: Any = None,
    ) -> None:
        self.shape = tuple([size] * shape if isinstance(shape, int) and size is not None else _axes(shape))
        plain = _gpuforge.Lattice(list(self.shape), None, None, None)
        chance, cells = None, None
        if isinstance(blocked, float):
            chance = (blocked, seed, [_cell_index(plain, cell) for cell in keep])
        elif blocked is not None:
            cells = [_cell_index(plain, cell) for cell in blocked]
        if weights is not None:
            import numpy as np

            weights = np.ascontiguousarray(weights, dtype=np.float64).reshape(-1)
        self._inner = _gpuforge.Lattice(list(self.shape), cells, chance, weights)

    def path(self, start: Cell, goal: Cell) -> NDArray[np.int64] | None:
        """Shortest path as rows of coordinates; ``None`` if there is none."""
        import numpy as np

        cells, _ = self._inner.path(_cell_index(self._inner, start), _cell_index(self._inner, goal))
        if cells is None:
            return None
        return np.stack(np.unravel_index(cells.astype(np.int64), self.shape), axis=1)

    def distances(self, source: Cell) -> NDArray[np.uint32]:
        """Distances in steps from a cell to every other, in the shape of the grid; the largest integer if unreachable."""
        found = self._inner.distances(_cell_index(self._inner, source))
        return found.reshape(self.shape)

    def analyse(self) -> Record:
        """Graph statistics: components, diameter or its bounds, degrees."""
        return Record.read(self._inner.analyse())

    def __repr__(self) -> str:
        return f"Lattice({self.shape})"


def xor(data: bytes, key: bytes | None = None) -> tuple[bytes, bytes]:
    """XOR with a repeating key; a random key is generated if none is given. Returns both.

    >>> hidden, key = xor(b"text")
    >>> xor(hidden, key)[0]
    b'text'
    """
    found, used = _gpuforge.lattice_xor(data, key)
    return bytes(found), bytes(used)


def _axes(shape: int | Sequence[int]) -> Sequence[int]:
    return [shape] if isinstance(shape, int) else shape


def _cell_index(lattice: _gpuforge.Lattice, cell: Cell) -> int:
    return cell if isinstance(cell, int) else lattice.cell([int(c) for c in cell])
