//! Where do long results lie? In memory that earlier results have given back.
//!
//! The C library gives the memory of long arrays back to the system as soon as there is much of it, and to get it again, page
//! by page, takes several times as long as to compute what goes there: three results of 100 000 bars cost 7 ns a bar that way,
//! and 1.5 here. Results begin at whole cache lines.

use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, ndarray::ArrayViewMut1};
use pyo3::prelude::*;

/// Numbers from which on memory is kept: shorter arrays stay with the C library in any case.
const LEAST: usize = 1 << 14;
/// Numbers that are kept at most, of all together: 64 MiB.
const MOST: usize = 8 << 20;
/// Bytes of a cache line.
const LINE: usize = 64;

/// What is kept, the oldest first. The interpreter's lock is held by whoever takes this one: no fork happens meanwhile.
static KEPT: Mutex<Vec<Vec<f64>>> = Mutex::new(Vec::new());

/// Memory of one array, which holds it.
#[pyclass(frozen, module = "gpuforge")]
struct Room {
    at: *mut f64,
    len: usize,
    capacity: usize,
}

#[allow(unsafe_code, reason = "memory that an array of Python's writes to")]
// SAFETY: nothing is read or written through the pointer here; who drops it last has it alone.
unsafe impl Send for Room {}
#[allow(unsafe_code, reason = "memory that an array of Python's writes to")]
// SAFETY: as above.
unsafe impl Sync for Room {}

impl Room {
    fn new(memory: Vec<f64>) -> Room {
        let mut memory = std::mem::ManuallyDrop::new(memory);
        Room { at: memory.as_mut_ptr(), len: memory.len(), capacity: memory.capacity() }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        #[allow(unsafe_code, reason = "memory that an array of Python's wrote to")]
        // SAFETY: `new` took these from a vector that nobody else has; the array is gone.
        keep(unsafe { Vec::from_raw_parts(self.at, self.len, self.capacity) });
    }
}

/// Keeps memory for later; where there is too much of it, the oldest goes.
fn keep(memory: Vec<f64>) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if memory.len() > MOST {
        return;
    }
    kept.push(memory);
    while kept.iter().map(Vec::len).sum::<usize>() > MOST {
        kept.remove(0);
    }
}

/// Bytes of earlier results that are kept for later ones.
#[pyfunction]
pub(crate) fn kept_bytes() -> usize {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().map(|room| size_of_val(room.as_slice())).sum()
}

/// Memory for so many numbers, of whatever it held; not much more than is asked for.
fn taken(numbers: usize) -> Vec<f64> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |room: &Vec<f64>| (numbers..=2 * numbers).contains(&room.len());
    // The latest is the likeliest to be in a cache.
    let found = kept.iter().rposition(fits).map(|at| kept.remove(at));
    found.unwrap_or_else(|| vec![0.0; numbers])
}

/// A long array of whatever memory holds: every number of it is written before anybody sees it. `None` for a short one.
pub(crate) fn long(py: Python<'_>, rows: usize) -> Option<Bound<'_, PyArray1<f64>>> {
    if rows < LEAST {
        return None;
    }
    let memory = taken(rows + LINE / size_of::<f64>());
    let skip = memory.as_ptr().align_offset(LINE).min(LINE / size_of::<f64>());
    let room = Room::new(memory);
    let at = room.at;
    let holder = Bound::new(py, room).ok()?;
    #[allow(unsafe_code, reason = "an array over memory that its base object holds")]
    // SAFETY: the memory has room for these after what is skipped; it is the holder's until the array, whose base it is, is gone.
    let array = unsafe {
        let view = ArrayViewMut1::from(std::slice::from_raw_parts_mut(at.add(skip), rows));
        PyArray1::borrow_from_array(&view, holder.into_any())
    };
    Some(array)
}
