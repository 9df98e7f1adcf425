//! Where does machine code live? In pages that can be executed and no longer written.

use memmap2::{Mmap, MmapMut};

/// Functions, one after the other.
pub(super) struct Code(Mmap);

/// Pointers that a function reads, and how many bytes of every stream it walks over.
type Function = unsafe extern "sysv64" fn(table: *const *mut f64, end: usize);

impl Code {
    /// `None` where the system does not let a program make code.
    pub(super) fn new(bytes: &[u8]) -> Option<Code> {
        let mut pages = MmapMut::map_anon(bytes.len().max(1)).ok()?;
        pages.get_mut(..bytes.len())?.copy_from_slice(bytes);
        pages.make_exec().ok().map(Code)
    }

    /// Calls the function at an offset.
    ///
    /// # Safety
    /// The offset is the first byte of a function that `emit` wrote, the table has what it reads, and every stream's pointer
    /// is valid from as far back as the function reads up to `end` bytes on; those that it writes are nobody else's.
    #[allow(unsafe_code, reason = "machine code can only be called on a promise")]
    pub(super) unsafe fn call(&self, offset: usize, table: &[*mut f64], end: usize) {
        let Some(first) = self.0.get(offset..) else { return };
        // SAFETY: a pointer to code and a function pointer are the same on this architecture.
        let function: Function = unsafe { std::mem::transmute(first.as_ptr()) };
        // SAFETY: promised by the caller.
        unsafe { function(table.as_ptr(), end) };
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({} bytes)", self.0.len())
    }
}
