//! NumPy arrays in and out: zero-copy for contiguous, aligned native float64, a counted copy for the rest. Results own their
//! memory.
//!
//! NumPy has unaligned arrays in everyday use: a field of a packed record array, `np.frombuffer` with an odd offset, a memmap
//! behind a header. No reference to them may exist in Rust, and an element's stride in bytes need not be a multiple of 8.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::buffer::ScalarBuffer;
use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::{exceptions::PyTypeError, prelude::*};

/// Input bytes copied because they could not be used zero-copy.
static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Input bytes copied so far: cast, concatenated, or reordered.
#[pyfunction]
pub(crate) fn copied_bytes() -> u64 {
    COPIED_BYTES.load(Ordering::Relaxed)
}

/// Counts a copy that was made on the Python side.
#[pyfunction]
pub(crate) fn count_copy(bytes: u64) {
    COPIED_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// Values of one column.
pub(crate) enum Column {
    /// Borrowed from a NumPy array that is kept alive.
    Borrowed(BorrowedArray),
    /// Copied or converted.
    Owned(Vec<f64>),
    /// In an Arrow buffer.
    Arrow(ScalarBuffer<f64>),
}

/// Memory of a NumPy array that is kept alive.
pub(crate) struct BorrowedArray {
    _owner: Py<PyAny>,
    ptr: *const f64,
    len: usize,
}

#[allow(unsafe_code, reason = "a pointer into a NumPy array that is kept alive")]
// SAFETY: the array is kept alive by `_owner`, whose reference count may be dropped from any thread; the values are only read.
// A Python thread that writes to the array meanwhile is the caller's data race, as with NumPy's own functions: any bits are a
// valid float.
unsafe impl Send for BorrowedArray {}
#[allow(unsafe_code, reason = "a pointer into a NumPy array that is kept alive")]
// SAFETY: nothing is written through a shared reference; the values are only read.
unsafe impl Sync for BorrowedArray {}

impl Column {
    /// A float64 array; copied if it is not contiguous or not aligned.
    pub(crate) fn of(array: &Bound<'_, PyAny>) -> PyResult<Column> {
        let typed = array
            .cast::<PyArray1<f64>>()
            .map_err(|_| PyTypeError::new_err("a one-dimensional float64 array is required"))?;
        if !is_zero_copy(typed) {
            count_copy(8 * typed.len() as u64);
            return Ok(Column::Owned(copy_to_vec(typed)));
        }
        let borrowed = BorrowedArray { _owner: array.clone().unbind(), ptr: typed.data(), len: typed.len() };
        Ok(Column::Borrowed(borrowed))
    }

    /// The values.
    pub(crate) fn slice(&self) -> &[f64] {
        match self {
            Column::Owned(own) => own,
            Column::Arrow(buffer) => buffer,
            Column::Borrowed(borrowed) if borrowed.len == 0 => &[],
            Column::Borrowed(borrowed) => {
                #[allow(unsafe_code, reason = "a pointer into a NumPy array that is kept alive")]
                // SAFETY: `of` took pointer and length from a contiguous, aligned array of doubles, which is kept alive.
                unsafe {
                    std::slice::from_raw_parts(borrowed.ptr, borrowed.len)
                }
            }
        }
    }
}

/// Whether a slice may be borrowed: contiguous, and aligned by its pointer and by its flags, which a user may have set.
pub(crate) fn is_zero_copy<T: Element>(array: &Bound<'_, PyArray1<T>>) -> bool {
    array.is_c_contiguous() && array.is_aligned() && array.data().is_aligned()
}

/// Copies an array of any strides and alignment into a vector.
pub(crate) fn copy_to_vec<T: Element + Copy>(array: &Bound<'_, PyArray1<T>>) -> Vec<T> {
    let (first, stride) = (array.data().cast::<u8>(), array.strides().first().copied().unwrap_or(0));
    let element = |at: usize| {
        #[allow(unsafe_code, reason = "ndarray's views need alignment and strides of whole elements")]
        // SAFETY: NumPy's element `at` of `len` begins that many strides (in bytes, of any sign) from the first. The GIL is
        // held, so the array is not resized; `read_unaligned` needs no alignment.
        unsafe {
            first.offset(at as isize * stride).cast::<T>().read_unaligned()
        }
    };
    (0..array.len()).map(element).collect()
}

/// Result columns.
pub(crate) type Arrays<'py> = Vec<Bound<'py, PyArray1<f64>>>;

/// A NumPy array that owns these values.
pub(crate) fn into_numpy(py: Python<'_>, values: Vec<f64>) -> Bound<'_, PyArray1<f64>> {
    PyArray1::from_vec(py, values)
}
