//! Typed views of byte buffers: zero-copy casts that return an error instead of panicking.

use std::{ops::Range, sync::Arc};

use bytemuck::Pod;
use gpuforge_runtime::tensor::{DType, Tensor, TensorSpec};

use crate::OpError;

/// Element types of tensors.
pub trait Number: Pod {
    /// The dtype.
    const DTYPE: DType;
}

impl Number for f32 {
    const DTYPE: DType = DType::F32;
}
impl Number for half::f16 {
    const DTYPE: DType = DType::F16;
}
impl Number for u32 {
    const DTYPE: DType = DType::U32;
}
impl Number for i32 {
    const DTYPE: DType = DType::I32;
}
impl Number for u8 {
    const DTYPE: DType = DType::U8;
}

fn misaligned(op: &'static str, want: usize, have: usize) -> OpError {
    OpError::Call { op, what: "bytes (or not aligned)", want, have }
}

/// Zero-copy cast of bytes to a typed slice. Buffers of tensors and plans are always aligned unless empty; anything else is an
/// error.
pub fn cast_slice<'a, T: Pod>(op: &'static str, bytes: &'a [u8]) -> Result<&'a [T], OpError> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| misaligned(op, size_of::<T>(), bytes.len()))
}

/// Mutable [`cast_slice`].
pub fn cast_slice_mut<'a, T: Pod>(op: &'static str, bytes: &'a mut [u8]) -> Result<&'a mut [T], OpError> {
    let have = bytes.len();
    if have == 0 {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| misaligned(op, size_of::<T>(), have))
}

/// The inputs or outputs of a call as an array of the expected length.
pub fn exactly<'a, T, const N: usize>(
    op: &'static str,
    what: &'static str,
    all: &'a [T],
) -> Result<&'a [T; N], OpError> {
    all.try_into().map_err(|_| OpError::Call { op, what, want: N, have: all.len() })
}

/// Mutable [`exactly`].
pub fn exactly_mut<'a, T, const N: usize>(
    op: &'static str,
    what: &'static str,
    all: &'a mut [T],
) -> Result<&'a mut [T; N], OpError> {
    let have = all.len();
    all.try_into().map_err(|_| OpError::Call { op, what, want: N, have })
}

/// A tensor of these values.
pub fn tensor<T: Number>(values: &[T], shape: &[usize], tag: &'static str) -> Result<Tensor, OpError> {
    let spec = TensorSpec { dtype: T::DTYPE, shape: shape.to_vec(), tag };
    let bytes: &[u8] = bytemuck::cast_slice(values);
    Ok(Tensor::from_bytes(bytes, spec)?)
}

/// Checks the dtype of a tensor.
pub fn expect_dtype(
    op: &'static str,
    what: &'static str,
    tensor: &Tensor,
    want: DType,
) -> Result<(), OpError> {
    let have = tensor.spec().dtype;
    if have == want { Ok(()) } else { Err(OpError::DType { op, what, want, have }) }
}

/// A slice of a host tensor along its first dimension, or of its elements where it has only one. `rows` counts units of `row`
/// elements.
pub fn slice_rows(
    op: &'static str,
    tensor: &Tensor,
    rows: Range<usize>,
    row: usize,
    shape: Vec<usize>,
) -> Result<Tensor, OpError> {
    let TensorSpec { dtype, tag, .. } = tensor.spec().clone();
    let bytes = usize::try_from(dtype.bytes()).unwrap_or(1).saturating_mul(row);
    let host: Arc<[u8]> =
        tensor.host().ok_or(OpError::Call { op, what: "inputs on the host", want: 1, have: 0 })?;
    let range = rows.start.saturating_mul(bytes)..rows.end.saturating_mul(bytes);
    let part = host.get(range.clone()).ok_or(OpError::Call {
        op,
        what: "bytes",
        want: range.end,
        have: host.len(),
    })?;
    Ok(Tensor::from_bytes(part, TensorSpec { dtype, shape, tag })?)
}
