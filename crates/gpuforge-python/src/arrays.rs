//! NumPy arrays in and out: zero-copy for contiguous, aligned float64 in native byte order, a counted copy for the rest. Results
//! own their memory.
//!
//! NumPy has unaligned arrays in everyday use: a field of a packed record array, `np.frombuffer` with an odd offset, a memmap
//! behind a header. No reference to them may exist in Rust, and an element's stride in bytes need not be a multiple of 8.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::buffer::ScalarBuffer;
use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::{exceptions::PyTypeError, prelude::*};

/// Bytes that were copied because they could not be used where they are.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// Bytes of input that had to be copied so far: cast, put together, or put in order.
#[pyfunction]
pub(crate) fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

/// Counts a copy that was made on the Python side.
#[pyfunction]
pub(crate) fn count_copy(bytes: u64) {
    COPIED.fetch_add(bytes, Ordering::Relaxed);
}

/// Values of one column.
pub(crate) enum Column {
    /// Borrowed from a NumPy array that is kept alive.
    Borrowed(BorrowedArray),
    /// Copied or converted.
    Owned(Vec<f64>),
    /// In a column of Arrow.
    Arrow(ScalarBuffer<f64>),
}

/// Memory of a NumPy array that is kept alive.
pub(crate) struct BorrowedArray {
    _owner: Py<PyAny>,
    at: *const f64,
    len: usize,
}

#[allow(unsafe_code, reason = "a pointer into an array that is held")]
// SAFETY: the array is kept alive by `_owner`, whose count may be given back from any thread; the numbers are only read. That a
// thread of Python writes to an array while it is computed on is a race of the caller's, as it is with NumPy's own functions:
// any bits are a valid number.
unsafe impl Send for BorrowedArray {}
#[allow(unsafe_code, reason = "a pointer into an array that is held")]
// SAFETY: as for `Send`: nothing is written through it.
unsafe impl Sync for BorrowedArray {}

impl Column {
    /// An array of float64; copied where it is not contiguous or not aligned.
    pub(crate) fn of(array: &Bound<'_, PyAny>) -> PyResult<Column> {
        let typed = array
            .cast::<PyArray1<f64>>()
            .map_err(|_| PyTypeError::new_err("an array of float64 with one dimension is needed here"))?;
        if !is_zero_copy(typed) {
            count_copy(8 * typed.len() as u64);
            return Ok(Column::Owned(copied(typed)));
        }
        let held = BorrowedArray { _owner: array.clone().unbind(), at: typed.data(), len: typed.len() };
        Ok(Column::Borrowed(held))
    }

    /// The numbers.
    pub(crate) fn slice(&self) -> &[f64] {
        match self {
            Column::Owned(own) => own,
            Column::Arrow(buffer) => buffer,
            Column::Borrowed(held) if held.len == 0 => &[],
            Column::Borrowed(held) => {
                #[allow(unsafe_code, reason = "a pointer into an array that is held")]
                // SAFETY: `of` took pointer and length from a contiguous, aligned array of doubles, which is kept alive.
                unsafe {
                    std::slice::from_raw_parts(held.at, held.len)
                }
            }
        }
    }
}

/// May a slice be made of it? It is contiguous, and aligned by its pointer and by its flags, which a user may have set.
pub(crate) fn is_zero_copy<T: Element>(array: &Bound<'_, PyArray1<T>>) -> bool {
    array.is_c_contiguous() && array.is_aligned() && array.data().is_aligned()
}

/// Elements of an array in a vector, whatever its strides and its alignment.
pub(crate) fn copied<T: Element + Copy>(array: &Bound<'_, PyArray1<T>>) -> Vec<T> {
    let (first, stride) = (array.data().cast::<u8>(), array.strides().first().copied().unwrap_or(0));
    let element = |at: usize| {
        #[allow(unsafe_code, reason = "ndarray's views need alignment and strides of whole elements")]
        // SAFETY: NumPy's element `at` of `len` begins that many strides (in bytes, of any sign) from the first. The GIL is
        // held, so that the array is not resized; `read_unaligned` needs no alignment.
        unsafe {
            first.offset(at as isize * stride).cast::<T>().read_unaligned()
        }
    };
    (0..array.len()).map(element).collect()
}

/// Columns as Python gets them.
pub(crate) type Arrays<'py> = Vec<Bound<'py, PyArray1<f64>>>;

/// An array that owns these numbers.
pub(crate) fn owned(py: Python<'_>, numbers: Vec<f64>) -> Bound<'_, PyArray1<f64>> {
    PyArray1::from_vec(py, numbers)
}
