"""Lazy operations on arrays, for ``Forge.run`` and ``Forge.batch``.

Inputs are NumPy, DLPack or buffer-protocol arrays of float32, float16, uint32, int32 or uint8; float64 and other integer sizes
are rejected rather than rounded.

>>> import gpuforge, numpy as np
>>> op = gpuforge.ops.map("a * b + 1", a=np.ones(3, dtype=np.float32), b=np.full(3, 2, dtype=np.float32))
>>> gpuforge.Forge(device="cpu").run(op).numpy()
array([3., 3., 3.], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from gpuforge import _gpuforge

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Tensor:
    """Tensor on the host or on a device. Results are tensors and can be inputs again without leaving the device."""

    def __init__(self, inner: _gpuforge.Tensor, bring: Callable[[_gpuforge.Tensor], None] | None = None) -> None:
        self._inner, self._bring = inner, bring

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        return tuple(self._inner.shape)

    @property
    def dtype(self) -> str:
        """Dtype, by NumPy's name."""
        return self._inner.dtype

    @property
    def residency(self) -> str:
        """Residency: host, device, both, nowhere."""
        return self._inner.residency

    def _download(self) -> None:
        if self._bring is not None and self.residency in ("device", "nowhere"):
            self._bring(self._inner)

    def numpy(self) -> NDArray[Any]:
        """The values as a NumPy array; downloads if needed."""
        self._download()
        found = self._inner.host_bytes()
        if found is None:
            raise _gpuforge.ForgeError("the tensor was on a device that was lost\n  hint: run the operation again")
        array: NDArray[Any] = found.view(self.dtype).reshape(self.shape)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=bool(copy))

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype}{self.shape} on {self.residency}>"


class Op:
    """An operation on tensors."""

    def __init__(self, name: str, arrays: list[Any], *extra: object) -> None:
        self._inner = _gpuforge.Op(name, [tensor(array)._inner for array in arrays], list(extra))

    @property
    def name(self) -> str:
        """Name."""
        return self._inner.name

    @property
    def outputs(self) -> list[tuple[str, list[int]]]:
        """Dtypes and shapes of the results."""
        return self._inner.outputs

    def __repr__(self) -> str:
        return repr(self._inner)


def tensor(array: Any) -> Tensor:
    """Tensor from an array: NumPy, DLPack (PyTorch, JAX, CuPy on the host), or the buffer protocol.

    >>> import numpy as np
    >>> tensor(np.zeros((2, 3), dtype=np.float32))
    <Tensor float32(2, 3) on host>
    """
    if isinstance(array, Tensor):
        return array
    import numpy as np

    if hasattr(array, "outputs") and hasattr(array, "report"):
        first: Tensor = array.outputs[0]
        return first
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported\n  hint: array.filled(value)")
    if not isinstance(array, np.ndarray):
        array = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
    if array.dtype.hasobject or array.dtype.kind not in "fiu":
        raise TypeError(f"a numeric dtype is required, not {array.dtype}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name in ("float64", "int64", "uint64"):
        narrow = {"float64": "float32", "int64": "int32", "uint64": "uint32"}[array.dtype.name]
        raise TypeError(f"no operation takes {array.dtype}\n  hint: array.astype(np.{narrow}), if that is precise enough")
    contiguous = np.ascontiguousarray(array)
    return Tensor(_gpuforge.Tensor(contiguous.reshape(-1).view(np.uint8), array.dtype.name, list(array.shape)))


def map(expression: str, /, **arrays: Any) -> Op:
    """Elementwise expression: ``map("a * b + 1", a=x, b=y)``."""
    return Op("map", list(arrays.values()), expression, *arrays)


def matmul(a: Any, b: Any) -> Op:
    """Matrix product."""
    return Op("matmul", [a, b])


def xor(data: Any, key: Any) -> Op:
    """XOR of bytes with a repeating key."""
    return Op("xor", [data, key])


def sum(data: Any, *, rows: bool = False) -> Op:
    """Sum of all elements, or of each row."""
    return Op("sum_rows" if rows else "sum", [data])


def mean(data: Any, *, rows: bool = False) -> Op:
    """Mean of all elements, or of each row."""
    return Op("mean_rows" if rows else "mean", [data])


def min(data: Any, *, rows: bool = False) -> Op:
    """Minimum of all elements, or of each row."""
    return Op("min_rows" if rows else "min", [data])


def max(data: Any, *, rows: bool = False) -> Op:
    """Maximum of all elements, or of each row."""
    return Op("max_rows" if rows else "max", [data])


def norm(data: Any) -> Op:
    """L2 norm."""
    return Op("norm", [data])


def argmin(data: Any) -> Op:
    """Index of the minimum."""
    return Op("argmin", [data])


def argmax(data: Any) -> Op:
    """Index of the maximum."""
    return Op("argmax", [data])


def scan_sum(data: Any) -> Op:
    """Cumulative sum (inclusive prefix scan)."""
    return Op("scan_sum", [data])


def scan_max(data: Any) -> Op:
    """Cumulative maximum."""
    return Op("scan_max", [data])


def scan_affine(a: Any, b: Any, start: float = 0.0) -> Op:
    """Affine recurrence ``y = a * y + b`` from ``start``, as a prefix scan."""
    return Op("scan_affine", [a, b], float(start))


def sort(data: Any, *, descending: bool = False) -> Op:
    """Sorted values."""
    return Op("sort_descending" if descending else "sort", [data])


def argsort(data: Any) -> Op:
    """Indices that sort the array."""
    return Op("argsort", [data])


def top_k(data: Any, k: int) -> Op:
    """The ``k`` largest values and their indices."""
    return Op("top_k", [data], k)


def bottom_k(data: Any, k: int) -> Op:
    """The ``k`` smallest values and their indices."""
    return Op("bottom_k", [data], k)


def gather(data: Any, index: Any) -> Op:
    """Elements at the given indices."""
    return Op("gather", [data, index])


def histogram(data: Any, bins: int, low: float, high: float) -> Op:
    """Counts in ``bins`` equal-width bins."""
    return Op("histogram", [data], bins, float(low), float(high))


def transpose(data: Any) -> Op:
    """Matrix transpose."""
    return Op("transpose", [data])


def uniform(n: int, *, seed: int = 0, offset: int = 0) -> Op:
    """Uniform random numbers in [0, 1): the same stream for a seed on every backend."""
    return Op("uniform", [], n, seed, offset)


def normal(n: int, *, seed: int = 0, offset: int = 0) -> Op:
    """Standard normal random numbers: the same stream for a seed on every backend."""
    return Op("normal", [], n, seed, offset)
