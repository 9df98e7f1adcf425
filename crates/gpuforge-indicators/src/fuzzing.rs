//! Fuzz entry points: what a fuzz target needs of the private JIT. Exists under `--cfg fuzzing` only and is no public API.

use crate::jit::differential::{Decoded, check_bytes};

/// Decodes bytes to JIT IR; what the verifier accepts must compute the same bits in machine code and in the interpreter.
/// `Ok(false)`: rejected. The error is the first difference in words.
pub fn jit_ir(bytes: &[u8]) -> Result<bool, String> {
    check_bytes(bytes).map(|outcome| outcome != Decoded::Rejected)
}
