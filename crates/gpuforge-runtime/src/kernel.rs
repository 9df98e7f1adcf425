//! What is a kernel? A shader and its twin on the processor, under one name.

use std::{borrow::Cow, fmt, sync::Arc};

/// What a kernel may do with a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it; written by an earlier command.
    Read,
    /// Writes it, and is the first command that does.
    Write,
    /// Reads and writes what an earlier command of the same plan wrote.
    Update,
}

/// One call as the processor twin sees it: what the shader would find in its bindings.
pub struct Call<'a> {
    /// Words of the parameter block.
    pub params: &'a [u32],
    /// Work groups per dimension.
    pub groups: [u32; 3],
    /// Buffers with [`Access::Read`], in binding order.
    pub inputs: Vec<&'a [u8]>,
    /// Buffers with [`Access::Write`] (zeroed) or [`Access::Update`] (as they are), in binding order.
    pub outputs: Vec<&'a mut [u8]>,
}

/// Why a twin refused a call: a recording error, not a device's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel {kernel}: {why}")]
pub struct TwinError {
    /// Which kernel.
    pub kernel: String,
    /// What is wrong with the call.
    pub why: String,
}

/// The processor twin.
pub type Twin = Arc<dyn Fn(&mut Call<'_>) -> Result<(), TwinError> + Send + Sync>;

/// A shader, its bindings and its twin. Parameters are data (`params`), not shader text, so that few pipelines serve many calls.
#[derive(Clone)]
pub struct Kernel {
    /// Unique name; also the shader's label.
    pub name: Cow<'static, str>,
    /// WGSL. `@group(0) @binding(0)` is the parameter block (`var<uniform>` of up to 16 words in `vec4<u32>`s), the
    /// bindings follow from 1 in the order of [`Kernel::bindings`].
    pub wgsl: Cow<'static, str>,
    /// Entry point.
    pub entry: &'static str,
    /// What each binding is for.
    pub bindings: Vec<Access>,
    /// The same computation on the processor.
    pub twin: Twin,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("bindings", &self.bindings)
            .finish_non_exhaustive()
    }
}

/// Words in a buffer, little-endian as every GPU of ours.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b))
}

/// Floats in a buffer.
pub fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    words(bytes).map(f32::from_bits)
}

/// Writes values into a buffer; stops at the shorter of the two.
pub fn put_words(into: &mut [u8], values: impl Iterator<Item = u32>) {
    for (slot, value) in into.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *slot = value.to_le_bytes();
    }
}

/// Writes floats into a buffer; stops at the shorter of the two.
pub fn put_floats(into: &mut [u8], values: impl Iterator<Item = f32>) {
    put_words(into, values.map(f32::to_bits));
}

/// Bytes of values, for uploads.
pub fn bytes_of_floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
