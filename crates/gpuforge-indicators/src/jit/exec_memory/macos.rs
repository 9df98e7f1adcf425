//! Executable memory on Apple silicon: `MAP_JIT` pages, whose writability is a switch of each thread.
//!
//! The kernel refuses pages that `mprotect` turns from writable to executable; `MAP_JIT` pages are both, and a thread sees them
//! as one or the other. The system library is always linked, so that no dependency is needed for four functions.

use std::{
    ffi::{c_int, c_void},
    io,
};

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;
const MAP_PRIVATE: c_int = 0x0002;
const MAP_JIT: c_int = 0x0800;
const MAP_ANON: c_int = 0x1000;

#[allow(unsafe_code, reason = "functions of the system library")]
unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        len: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
    fn pthread_jit_write_protect_np(enabled: c_int);
    fn sys_icache_invalidate(start: *mut c_void, len: usize);
}

/// `MAP_JIT` pages, written once.
pub(super) struct Pages {
    at: *mut c_void,
    len: usize,
}

#[allow(unsafe_code, reason = "the pointer owns its pages")]
// SAFETY: the pages are written only in `new`, before they are shared; afterwards they are read and executed.
unsafe impl Send for Pages {}
#[allow(unsafe_code, reason = "the pointer owns its pages")]
// SAFETY: nothing writes the pages after `new`, so that threads only read and execute them.
unsafe impl Sync for Pages {}

impl Pages {
    #[allow(unsafe_code, reason = "calls the system library")]
    pub(super) fn new(code: &[u8]) -> io::Result<Pages> {
        let len = code.len().max(1);
        let protection = PROT_READ | PROT_WRITE | PROT_EXEC;
        // SAFETY: new anonymous pages at an address of the kernel's choice alias nothing.
        let at =
            unsafe { mmap(std::ptr::null_mut(), len, protection, MAP_PRIVATE | MAP_ANON | MAP_JIT, -1, 0) };
        // MAP_FAILED.
        if at.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the pages are `len` bytes long, `code` is not inside them, and this thread may write them between the two
        // switches; the range that is invalidated is the one that was written.
        unsafe {
            pthread_jit_write_protect_np(0);
            std::ptr::copy_nonoverlapping(code.as_ptr(), at.cast(), code.len());
            pthread_jit_write_protect_np(1);
            sys_icache_invalidate(at, len);
        }
        Ok(Pages { at, len })
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.at.cast()
    }
}

impl Drop for Pages {
    #[allow(unsafe_code, reason = "calls the system library")]
    fn drop(&mut self) {
        // SAFETY: these are the pages that `new` mapped, and nothing runs in them: calls borrow `self`.
        unsafe { munmap(self.at, self.len) };
    }
}
