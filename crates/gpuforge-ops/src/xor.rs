//! XOR cipher with a repeating key: `out[i] = data[i] ^ key[i mod length of the key]`.
//!
//! On a device, a key of `k` bytes is expanded to whole words: word `j` of the data is combined with bytes `4j..4j+4` of the
//! repeated key, which repeats after `k` words (or `k / 4` where that is whole).

use std::{any::Any, hash::Hasher as _, ops::Range, sync::Arc};

use gpuforge_runtime::{
    kernel::{Access, CpuReferenceError, Kernel, put_words, words},
    plan::{Plan, Slot},
    tensor::{DType, Tensor, TensorSpec},
};

use crate::{
    Fused, Op, OpCost, OpError, OpKind, Target, Threads, Variant,
    op::Items,
    record::{groups, size, word},
    view::{exactly, exactly_mut, expect_dtype, slice_rows, tensor},
};

const OP: &str = "xor";
const VARIANTS: &[Variant] = &[Variant::new(64, 1, 1), Variant::new(256, 1, 1)];
/// Largest key in bytes.
pub const MAX_KEY: usize = 1 << 20;
/// Fewest bytes per thread.
const PER_THREAD: usize = 1 << 18;

/// The XOR operation; see the module documentation.
#[derive(Debug, Clone)]
pub struct Xor {
    data: Tensor,
    key: Tensor,
    /// Bytes of one item and of its key; several items when operations were fused, each padded to whole words.
    item: (usize, usize),
}

/// `data` XOR a repeating `key`, both bytes.
pub fn xor(data: &Tensor, key: &Tensor) -> Xor {
    let bytes = |t: &Tensor| usize::try_from(size(t).0).unwrap_or(usize::MAX);
    Xor { item: (bytes(data), bytes(key)), data: data.clone(), key: key.clone() }
}

impl Op for Xor {
    fn kind(&self) -> OpKind {
        OpKind::Xor
    }

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.data, &self.key]
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        expect_dtype(OP, "the data", &self.data, DType::U8)?;
        expect_dtype(OP, "the key", &self.key, DType::U8)?;
        let (_, key) = self.item;
        if !(1..=MAX_KEY).contains(&key) {
            let limit = "it must have between 1 byte and 1 MiB";
            return Err(OpError::Value {
                op: OP,
                what: "the length of the key",
                have: key.to_string(),
                limit,
            });
        }
        Ok(vec![TensorSpec { tag: "xor", ..self.data.spec().clone() }])
    }

    fn cost(&self) -> OpCost {
        let n = size(&self.data);
        OpCost { units: n.0, flops: 0, read: n, written: n, launches: 1, depth: 1 }
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let [data, keys] = exactly(OP, "inputs", inputs)?;
        let [out] = exactly_mut(OP, "outputs", outputs)?;
        let (item, key) = self.item;
        let stride = self.stride();
        for (i, (out, data)) in out.chunks_mut(stride).zip(data.chunks(stride)).enumerate() {
            let key = keys.get(i * key..(i + 1) * key).unwrap_or(keys);
            let n = item.min(out.len());
            apply(data.get(..n).unwrap_or(data), key, out.get_mut(..n).unwrap_or_default(), threads);
        }
        Ok(())
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let [data, _] = exactly(OP, "inputs", inputs)?;
        let keys =
            self.key.host().ok_or(OpError::Call { op: OP, what: "keys on the host", want: 1, have: 0 })?;
        let (_, key) = self.item;
        let period = if key.is_multiple_of(4) { key / 4 } else { key };
        let pattern: Vec<u8> =
            keys.chunks_exact(key).flat_map(|k| k.iter().cycle().take(period * 4).copied()).collect();
        let keys = plan.upload(pattern, "xor key")?;
        let out = plan.slot(size(&self.data), "xor");
        let n = size(&self.data).0.div_ceil(4);
        let stride = (self.stride() as u64).div_ceil(4);
        let variant = target.variant(OpKind::Xor, VARIANTS);
        let params = [word(OP, n)?, word(OP, stride.max(1))?, word(OP, period as u64)?];
        let groups = groups(OP, n.div_ceil(u64::from(variant.group)))?;
        plan.dispatch(&kernel(variant), &[*data, keys, out], &params, groups)?;
        Ok(vec![out])
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn items(&self) -> Option<Items> {
        let (item, key) = self.item;
        let one = self.count() == 1;
        // A partition begins where the key begins, word-aligned.
        let grain = if key.is_multiple_of(4) { key } else { key.saturating_mul(4) };
        Some(if one { Items { count: item, grain } } else { Items { count: self.count(), grain: 1 } })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        if self.count() == 1 {
            let len = items.len();
            let data = slice_rows(OP, &self.data, items, 1, vec![len])?;
            return Ok(Arc::new(xor(&data, &self.key)));
        }
        let (stride, (_, key), n) = (self.stride(), self.item, items.len());
        let data = slice_rows(OP, &self.data, items.clone(), stride, vec![n * stride])?;
        let keys = slice_rows(OP, &self.key, items, key, vec![n * key])?;
        Ok(Arc::new(Xor { data, key: keys, item: self.item }))
    }

    fn fuse_key(&self) -> Option<u64> {
        let mut hash = std::hash::DefaultHasher::new();
        hash.write_usize(self.item.0);
        hash.write_usize(self.item.1);
        (self.count() == 1 && self.data.on_host() && self.key.on_host()).then(|| hash.finish())
    }

    fn fuse(&self, group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        let stride = self.item.0.next_multiple_of(4);
        let (mut data, mut keys) = (vec![0u8; stride * group.len()], Vec::new());
        for (op, slot) in group.iter().zip(data.chunks_exact_mut(stride.max(1))) {
            let Some(Xor { data, key, .. }) = op.as_any().downcast_ref() else { return Ok(None) };
            let (Some(data), Some(key)) = (data.host(), key.host()) else { return Ok(None) };
            if (data.len(), key.len()) != self.item {
                return Ok(None);
            }
            slot.get_mut(..data.len()).unwrap_or_default().copy_from_slice(&data);
            keys.extend_from_slice(&key);
        }
        let (n, k) = (data.len(), keys.len());
        let op =
            Xor { data: tensor(&data, &[n], "xor")?, key: tensor(&keys, &[k], "xor key")?, item: self.item };
        let range = |i: usize| i * stride..i * stride + self.item.0;
        let output_ranges = (0..group.len()).map(|i| std::iter::once(range(i)).collect()).collect();
        Ok(Some(Fused { op: Arc::new(op), output_ranges }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Xor {
    /// Number of fused operations.
    fn count(&self) -> usize {
        let keys = usize::try_from(size(&self.key).0).unwrap_or(0);
        keys.checked_div(self.item.1).unwrap_or(1).max(1)
    }

    /// Stride between items in bytes.
    fn stride(&self) -> usize {
        let item = self.item.0.max(1);
        if self.count() == 1 { item } else { item.next_multiple_of(4) }
    }
}

/// XORs a key that starts at the beginning of the data.
fn apply(data: &[u8], key: &[u8], out: &mut [u8], threads: Threads) {
    // The key is repeated to at least 256 bytes, so that the inner loop vectorises.
    let pattern: Vec<u8> =
        key.iter().cycle().take(key.len() * 256usize.div_ceil(key.len().max(1))).copied().collect();
    let line = |(out, data): (&mut [u8], &[u8])| {
        for (out, data) in out.chunks_mut(pattern.len()).zip(data.chunks(pattern.len())) {
            for ((out, data), key) in out.iter_mut().zip(data).zip(&pattern) {
                *out = data ^ key;
            }
        }
    };
    if threads.0 < 2 || data.len() < 2 * PER_THREAD {
        return line((out, data));
    }
    let share = data.len().div_ceil(threads.0).next_multiple_of(pattern.len());
    threads.par_for_each(out.chunks_mut(share).zip(data.chunks(share)), line);
}

fn kernel(variant: Variant) -> Arc<Kernel> {
    let wgsl = include_str!("../shader/xor.wgsl").replace("GROUP", &variant.group.to_string());
    Arc::new(Kernel {
        name: OP.into(),
        wgsl: wgsl.into(),
        entry: "main",
        bindings: vec![Access::Read, Access::Read, Access::Write],
        cpu_reference: Arc::new(|call| {
            let ([n, stride, period, ..], [data, keys], [out]) =
                (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
            else {
                return Err(CpuReferenceError {
                    kernel: OP.into(),
                    why: "needs 3 parameters, 2 inputs, 1 output".into(),
                });
            };
            let keys: Vec<u32> = words(keys).collect();
            let key = |i: u32| {
                let at = i / stride.max(&1) * period + i % stride.max(&1) % period.max(&1);
                keys.get(at as usize).copied().unwrap_or(0)
            };
            put_words(out, words(data).zip(0..*n).map(|(word, i)| word ^ key(i)));
            Ok(())
        }),
    })
}

/// Calibration example: `[bytes, bytes of the key]`.
pub(crate) fn example(sizes: &[usize]) -> Result<Arc<dyn Op>, OpError> {
    let n = sizes.first().copied().unwrap_or(1024);
    let k = sizes.get(1).copied().unwrap_or(16).clamp(1, MAX_KEY);
    let data: Vec<u8> = (0..n).map(|i| (i * 7 % 251) as u8).collect();
    let key: Vec<u8> = (0..k).map(|i| (i * 13 % 241) as u8).collect();
    Ok(Arc::new(xor(&tensor(&data, &[n], OP)?, &tensor(&key, &[k], "xor key")?)))
}
