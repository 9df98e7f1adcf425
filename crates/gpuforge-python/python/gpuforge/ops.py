"""Operations on arrays, for ``Forge.run`` and ``Forge.batch``; making one computes nothing.

Arrays come in by NumPy, DLPack or the buffer protocol, in float32, float16, uint32, int32 or uint8; float64 and whole numbers of
other sizes are refused rather than rounded.

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
    """Numbers on the host or on a device. Results are tensors, and may be inputs again without leaving the device."""

    def __init__(self, inner: _gpuforge.Tensor, bring: Callable[[_gpuforge.Tensor], None] | None = None) -> None:
        self._inner, self._bring = inner, bring

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes per dimension."""
        return tuple(self._inner.shape)

    @property
    def dtype(self) -> str:
        """Kind of its numbers, by NumPy's name."""
        return self._inner.dtype

    @property
    def residency(self) -> str:
        """Where its numbers are: host, device, both, nowhere."""
        return self._inner.residency

    def _home(self) -> None:
        if self._bring is not None and self.residency in ("device", "nowhere"):
            self._bring(self._inner)

    def numpy(self) -> NDArray[Any]:
        """Its numbers as an array."""
        self._home()
        found = self._inner.host_bytes()
        if found is None:
            raise _gpuforge.ForgeError("the numbers are on a device that is gone\n  hint: run the operation again")
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
        """Which kind of work it is."""
        return self._inner.name

    @property
    def outputs(self) -> list[tuple[str, list[int]]]:
        """Kinds and shapes of its results."""
        return self._inner.outputs

    def __repr__(self) -> str:
        return repr(self._inner)


def tensor(array: Any) -> Tensor:
    """A tensor of an array: NumPy, DLPack (PyTorch, JAX, CuPy on the host), or anything with a buffer.

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
        raise TypeError("masked arrays have no place on a device\n  hint: array.filled(value)")
    if not isinstance(array, np.ndarray):
        array = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
    if array.dtype.hasobject or array.dtype.kind not in "fiu":
        raise TypeError(f"numbers are needed, not {array.dtype}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name in ("float64", "int64", "uint64"):
        narrow = {"float64": "float32", "int64": "int32", "uint64": "uint32"}[array.dtype.name]
        raise TypeError(f"no operation takes {array.dtype}\n  hint: array.astype(np.{narrow}), if that is precise enough")
    lying = np.ascontiguousarray(array)
    return Tensor(_gpuforge.Tensor(lying.reshape(-1).view(np.uint8), array.dtype.name, list(array.shape)))


def map(expression: str, /, **arrays: Any) -> Op:
    """An expression of every element: ``map("a * b + 1", a=x, b=y)``; names are those of the arrays."""
    return Op("map", list(arrays.values()), expression, *arrays)


def matmul(a: Any, b: Any) -> Op:
    """The matrix product."""
    return Op("matmul", [a, b])


def xor(data: Any, key: Any) -> Op:
    """Bytes XOR a key that repeats."""
    return Op("xor", [data, key])


def sum(data: Any, *, rows: bool = False) -> Op:
    """The sum of everything, or of each row."""
    return Op("sum_rows" if rows else "sum", [data])


def mean(data: Any, *, rows: bool = False) -> Op:
    """The mean of everything, or of each row."""
    return Op("mean_rows" if rows else "mean", [data])


def min(data: Any, *, rows: bool = False) -> Op:
    """The least of everything, or of each row."""
    return Op("min_rows" if rows else "min", [data])


def max(data: Any, *, rows: bool = False) -> Op:
    """Maximum of all elements, or of each row."""
    return Op("max_rows" if rows else "max", [data])


def norm(data: Any) -> Op:
    """The root of the sum of squares."""
    return Op("norm", [data])


def argmin(data: Any) -> Op:
    """Where the least is."""
    return Op("argmin", [data])


def argmax(data: Any) -> Op:
    """Index of the maximum."""
    return Op("argmax", [data])


def scan_sum(data: Any) -> Op:
    """Sums of everything so far."""
    return Op("scan_sum", [data])


def scan_max(data: Any) -> Op:
    """Cumulative maximum."""
    return Op("scan_max", [data])


def scan_affine(a: Any, b: Any, start: float = 0.0) -> Op:
    """``y = a * y + b``, from ``start`` on."""
    return Op("scan_affine", [a, b], float(start))


def sort(data: Any, *, descending: bool = False) -> Op:
    """In order."""
    return Op("sort_descending" if descending else "sort", [data])


def argsort(data: Any) -> Op:
    """Where each comes from when they are put in order."""
    return Op("argsort", [data])


def top_k(data: Any, k: int) -> Op:
    """The ``k`` largest values and their indices."""
    return Op("top_k", [data], k)


def bottom_k(data: Any, k: int) -> Op:
    """The ``k`` least, and where they are."""
    return Op("bottom_k", [data], k)


def gather(data: Any, index: Any) -> Op:
    """Elements at these places."""
    return Op("gather", [data, index])


def histogram(data: Any, bins: int, low: float, high: float) -> Op:
    """How many lie in each of ``bins`` equal parts."""
    return Op("histogram", [data], bins, float(low), float(high))


def transpose(data: Any) -> Op:
    """Rows become columns."""
    return Op("transpose", [data])


def uniform(n: int, *, seed: int = 0, offset: int = 0) -> Op:
    """Random numbers from 0 to 1: the same for a seed on every place."""
    return Op("uniform", [], n, seed, offset)


def normal(n: int, *, seed: int = 0, offset: int = 0) -> Op:
    """Random numbers with mean 0 and deviation 1: the same stream for a seed on every place."""
    return Op("normal", [], n, seed, offset)
