//! Kernel: a WGSL compute shader and its CPU reference kernel, under one name.

use std::{borrow::Cow, fmt, sync::Arc};

/// How a kernel accesses a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read-only; written by an earlier command.
    Read,
    /// Write; the first command that writes it.
    Write,
    /// Read-write of what an earlier command of the same plan wrote.
    Update,
}

/// A dispatch as the CPU reference sees it: what the shader would find in its bindings.
pub struct KernelCall<'a> {
    /// Words of the uniform parameter block.
    pub params: &'a [u32],
    /// Workgroups per dimension.
    pub groups: [u32; 3],
    /// Buffers with [`Access::Read`], in binding order.
    pub inputs: Vec<&'a [u8]>,
    /// Buffers with [`Access::Write`] (zeroed) or [`Access::Update`] (as they are), in binding order.
    pub outputs: Vec<&'a mut [u8]>,
}

/// Why a CPU reference kernel refused a call: a bug in the plan, not a device failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel {kernel}: {why}")]
pub struct CpuReferenceError {
    /// Which kernel.
    pub kernel: String,
    /// What is wrong with the call.
    pub why: String,
}

/// CPU reference of a kernel.
pub type CpuReference = Arc<dyn Fn(&mut KernelCall<'_>) -> Result<(), CpuReferenceError> + Send + Sync>;

/// A shader, its bindings and its CPU reference. Parameters are data (`params`), not shader text, so that few pipelines
/// serve many calls.
#[derive(Clone)]
pub struct Kernel {
    /// Unique name; also the shader's label.
    pub name: Cow<'static, str>,
    /// WGSL. `@group(0) @binding(0)` is the parameter block (`var<uniform>` of up to 16 words in `vec4<u32>`s), the
    /// bindings follow from 1 in the order of [`Kernel::bindings`].
    pub wgsl: Cow<'static, str>,
    /// Entry point.
    pub entry: &'static str,
    /// Access of each binding.
    pub bindings: Vec<Access>,
    /// The same computation on the CPU.
    pub cpu_reference: CpuReference,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("bindings", &self.bindings)
            .finish_non_exhaustive()
    }
}

/// Words in a buffer, little-endian.
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
