//! Windows: calls of its API, each behind a safe function.
#![allow(unsafe_code, reason = "the system's calls; each block says why it is sound")]

pub(crate) mod files;
pub(crate) mod interrupt;
pub(crate) mod local_socket;
pub(crate) mod private_dir;
pub(crate) mod process;

use std::{
    ffi::OsStr,
    os::windows::{
        ffi::OsStrExt as _,
        io::{FromRawHandle as _, OwnedHandle},
    },
};

use windows_sys::Win32::Foundation::{HANDLE, LocalFree};

/// UTF-16 with its terminating zero, as the wide calls want it. A zero inside ends the text early.
fn wide(text: &OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}

/// Takes ownership of a handle that a call has just returned; `None` for the null of a failed one.
fn owned(handle: HANDLE) -> Option<OwnedHandle> {
    // SAFETY: callers pass a handle that nobody else closes.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Memory that a call of the security API has allocated, freed by `LocalFree`.
struct LocalMemory(*mut core::ffi::c_void);

impl Drop for LocalMemory {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a call that documents `LocalFree`, and is freed once; null is accepted.
        unsafe { LocalFree(self.0) };
    }
}
