//! Executable memory (W^X): pages are written, then made executable and no longer writable.

use memmap2::{Mmap, MmapMut};

/// The functions of a program, one after the other.
pub(super) struct CodePages(Mmap);

/// A JIT function: the pointers of its argument block, and the bytes of every stream that it walks over. The same calling
/// convention on every system of a target.
#[cfg(target_arch = "x86_64")]
type JitFn = unsafe extern "sysv64" fn(table: *const *mut f64, end: usize);
#[cfg(not(target_arch = "x86_64"))]
type JitFn = unsafe extern "C" fn(table: *const *mut f64, end: usize);

impl CodePages {
    /// `None` where the system forbids executable memory.
    pub(super) fn new(bytes: &[u8]) -> Option<CodePages> {
        let mut pages = MmapMut::map_anon(bytes.len().max(1)).ok()?;
        pages.get_mut(..bytes.len())?.copy_from_slice(bytes);
        pages.make_exec().ok().map(CodePages)
    }

    /// Calls the function at an offset.
    ///
    /// # Safety
    /// The offset is the first byte of an emitted function, the table has what it reads, and every stream's pointer is valid
    /// from as far back as the function reads up to `end` bytes on; nothing else accesses those that it writes.
    #[allow(unsafe_code, reason = "the compiler cannot check machine code")]
    pub(super) unsafe fn call(&self, offset: usize, table: &[*mut f64], end: usize) {
        let Some(first) = self.0.get(offset..) else { return };
        // SAFETY: data and function pointers have the same representation on these targets.
        let function: JitFn = unsafe { std::mem::transmute(first.as_ptr()) };
        // SAFETY: promised by the caller.
        unsafe { function(table.as_ptr(), end) };
    }
}

impl std::fmt::Debug for CodePages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CodePages({} bytes)", self.0.len())
    }
}
