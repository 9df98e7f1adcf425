//! Executable memory (W^X): pages are written, then made executable and no longer writable.
//!
//! | system | how |
//! |---|---|
//! | Linux, Windows | anonymous pages, then `mprotect`/`VirtualProtect` (`memmap2`) |
//! | macOS on Apple silicon | `MAP_JIT` pages, writable per thread (`pthread_jit_write_protect_np`) |
//! | every AArch64 | the instruction cache is not coherent with the data cache: it is flushed before the first call |

use super::error::EmitError;
use crate::kernel::transpose::CACHE_LINE;

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
mod macos;

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
use macos::Pages;
#[cfg(not(all(target_os = "macos", target_arch = "aarch64")))]
use mapped::Pages;

/// Fills the gaps between functions with a trap: `int3`; on AArch64 an all-zero word, `udf #0`.
const PADDING: u8 = if cfg!(target_arch = "aarch64") { 0 } else { 0xcc };

/// A JIT function: the pointers of its argument block, and the bytes of every stream that it walks over. The same calling
/// convention on every system of a target.
#[cfg(target_arch = "x86_64")]
type JitFn = unsafe extern "sysv64" fn(table: *const *mut f64, end: usize);
#[cfg(not(target_arch = "x86_64"))]
type JitFn = unsafe extern "C" fn(table: *const *mut f64, end: usize);

/// Functions before they are executable.
#[derive(Debug, Default)]
pub(super) struct CodeBuffer(Vec<u8>);

/// The first byte of a function. Only [`CodeBuffer::append`] makes one, so that it is inside the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryPoint(usize);

impl CodeBuffer {
    /// Appends a function, aligned to a cache line.
    pub(super) fn append(&mut self, function: Vec<u8>) -> Result<EntryPoint, EmitError> {
        if function.is_empty() {
            return Err(EmitError::EmptyFunction);
        }
        self.0.resize(self.0.len().next_multiple_of(CACHE_LINE), PADDING);
        let entry = EntryPoint(self.0.len());
        self.0.extend(function);
        Ok(entry)
    }

    /// Makes the functions executable; an error where the system forbids it.
    pub(super) fn finish(self) -> std::io::Result<CodePages> {
        Ok(CodePages { pages: Pages::new(&self.0)?, len: self.0.len() })
    }
}

/// The functions of a program, one after the other.
pub(super) struct CodePages {
    pages: Pages,
    len: usize,
}

impl CodePages {
    /// Bytes of machine code.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Calls a function.
    ///
    /// # Safety
    /// The entry point is one of the buffer that these pages were made of, the table has what the function reads, and every
    /// stream's pointer is valid from as far back as the function reads up to `end` bytes on; nothing else accesses those that
    /// it writes.
    #[allow(unsafe_code, reason = "the compiler cannot check machine code")]
    pub(super) unsafe fn call(&self, entry: EntryPoint, table: &[*mut f64], end: usize) {
        let first = self.pages.as_ptr().wrapping_add(entry.0);
        // SAFETY: data and function pointers have the same representation on every target with a backend, and an entry point
        // is the first byte of a function in these pages, which stay mapped and executable while `self` lives.
        let function: JitFn = unsafe { std::mem::transmute(first) };
        // SAFETY: the caller promises the entry point, the table and its streams.
        unsafe { function(table.as_ptr(), end) };
    }
}

impl std::fmt::Debug for CodePages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CodePages({} bytes)", self.len)
    }
}

#[cfg(not(all(target_os = "macos", target_arch = "aarch64")))]
mod mapped {
    use memmap2::{Mmap, MmapMut};

    /// Anonymous pages, first writable, then executable.
    pub(super) struct Pages(Mmap);

    impl Pages {
        pub(super) fn new(code: &[u8]) -> std::io::Result<Pages> {
            let mut pages = MmapMut::map_anon(code.len().max(1))?;
            pages.iter_mut().zip(code).for_each(|(to, byte)| *to = *byte);
            let pages = pages.make_exec()?;
            #[cfg(target_arch = "aarch64")]
            flush_instruction_cache(&pages);
            Ok(Pages(pages))
        }

        pub(super) fn as_ptr(&self) -> *const u8 {
            self.0.as_ptr()
        }
    }

    /// Makes instructions that were just written visible to instruction fetch.
    #[cfg(target_arch = "aarch64")]
    #[allow(unsafe_code, reason = "a call of the compiler's runtime")]
    fn flush_instruction_cache(code: &[u8]) {
        unsafe extern "C" {
            /// Of libgcc and compiler-rt.
            fn __clear_cache(begin: *mut std::ffi::c_char, end: *mut std::ffi::c_char);
        }
        let range = code.as_ptr_range();
        // SAFETY: the range is one slice, mapped and readable; the function only cleans and invalidates its cache lines.
        unsafe { __clear_cache(range.start.cast_mut().cast(), range.end.cast_mut().cast()) };
    }
}
