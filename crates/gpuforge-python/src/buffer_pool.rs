//! Buffer pool for result arrays: memory of dropped NumPy arrays is reused by later results, oldest evicted first.
//!
//! glibc returns large blocks to the kernel on free, and faulting the pages in again takes several times as long as computing
//! what goes there. Buffers start at a cache line. Not shared with `gpuforge-runtime`'s pool, which hands out device blocks by
//! size class: here a buffer is owned by a Python object and comes back when the interpreter drops it.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, ndarray::ArrayViewMut1};
use pyo3::prelude::*;

/// Values from which on a buffer is pooled; malloc keeps shorter ones itself.
const MIN_POOLED: usize = 1 << 14;
/// Values that the pool holds at most: 64 MiB.
const CAPACITY: usize = 8 << 20;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Free buffers, the oldest first. Locked only while the GIL is held, so no fork happens meanwhile.
static FREE: Mutex<Vec<Vec<f64>>> = Mutex::new(Vec::new());

/// Base object of a NumPy array: owns its buffer and returns it to the pool.
#[pyclass(frozen, module = "gpuforge")]
struct PooledBuffer {
    ptr: *mut f64,
    len: usize,
    capacity: usize,
}

#[allow(unsafe_code, reason = "a buffer that a NumPy array writes to")]
// SAFETY: this type never reads or writes through `ptr`; the thread that drops it is the last owner.
unsafe impl Send for PooledBuffer {}
#[allow(unsafe_code, reason = "a buffer that a NumPy array writes to")]
// SAFETY: a shared reference gives no access to the memory behind `ptr`.
unsafe impl Sync for PooledBuffer {}

impl PooledBuffer {
    fn new(buffer: Vec<f64>) -> PooledBuffer {
        let mut buffer = std::mem::ManuallyDrop::new(buffer);
        PooledBuffer { ptr: buffer.as_mut_ptr(), len: buffer.len(), capacity: buffer.capacity() }
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        #[allow(unsafe_code, reason = "a buffer that a NumPy array wrote to")]
        // SAFETY: `new` took pointer, length and capacity from a vector it did not drop; the array that borrowed them is gone.
        release(unsafe { Vec::from_raw_parts(self.ptr, self.len, self.capacity) });
    }
}

/// Returns a buffer to the pool; evicts the oldest beyond [`CAPACITY`].
fn release(buffer: Vec<f64>) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if buffer.len() > CAPACITY {
        return;
    }
    free.push(buffer);
    while free.iter().map(Vec::len).sum::<usize>() > CAPACITY {
        free.remove(0);
    }
}

/// Bytes of free buffers in the pool.
#[pyfunction]
pub(crate) fn kept_bytes() -> usize {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.iter().map(|buffer| size_of_val(buffer.as_slice())).sum()
}

/// A buffer of at least `len` and at most twice as many values, contents unspecified.
fn acquire(len: usize) -> Vec<f64> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |buffer: &Vec<f64>| (len..=2 * len).contains(&buffer.len());
    // The most recently freed is the likeliest to be in a cache.
    let found = free.iter().rposition(fits).map(|at| free.remove(at));
    found.unwrap_or_else(|| vec![0.0; len])
}

/// An array over a pooled buffer, contents unspecified: the caller writes every value before Python sees it. `None` below
/// [`MIN_POOLED`] rows.
pub(crate) fn pooled_array(py: Python<'_>, rows: usize) -> Option<Bound<'_, PyArray1<f64>>> {
    if rows < MIN_POOLED {
        return None;
    }
    let buffer = acquire(rows + CACHE_LINE / size_of::<f64>());
    let skip = buffer.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / size_of::<f64>());
    let buffer = PooledBuffer::new(buffer);
    let ptr = buffer.ptr;
    let base = Bound::new(py, buffer).ok()?;
    #[allow(unsafe_code, reason = "an array over memory that its base object owns")]
    // SAFETY: `acquire` gave `rows` values beyond the at most one cache line skipped; `base` owns them and outlives the array.
    let array = unsafe {
        let view = ArrayViewMut1::from(std::slice::from_raw_parts_mut(ptr.add(skip), rows));
        PyArray1::borrow_from_array(&view, base.into_any())
    };
    Some(array)
}
