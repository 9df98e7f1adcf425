//! The operation interface: shape checks, CPU path, device path, partitioning and fusion.

use std::{
    any::Any,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use gpuforge_runtime::{
    host::HostBytes,
    plan::{Plan, Slot},
    tensor::{Tensor, TensorSpec},
};

use crate::{OpCost, OpError, OpKind, Target, Variant};

/// Number of threads the CPU path may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(pub usize);

impl Threads {
    /// A single thread.
    pub const ONE: Threads = Threads(1);

    /// All threads of the rayon pool; the caller may be one of them.
    pub fn all() -> Threads {
        Threads(rayon::current_num_threads())
    }

    /// Parallel for-each with dynamic scheduling. The calling thread takes part and starts at once; threads that wake up late find
    /// less to do.
    pub fn par_for_each<T: Send>(
        self,
        items: impl IntoIterator<Item = T, IntoIter: Send>,
        work: impl Fn(T) + Sync,
    ) {
        if self.0 < 2 {
            return items.into_iter().for_each(work);
        }
        let waiting = Mutex::new(items.into_iter());
        let run = || {
            loop {
                // The lock is held only to take an item.
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                match next {
                    Some(item) => work(item),
                    None => return,
                }
            }
        };
        rayon::in_place_scope(|scope| {
            (1..self.0).for_each(|_| scope.spawn(|_| run()));
            run();
        });
    }
}

/// An operation on tensors: plain data. Constructing one costs nothing and checks nothing; [`Op::outputs`] checks.
pub trait Op: Any + fmt::Debug + Send + Sync {
    /// The op kind.
    fn kind(&self) -> OpKind;

    /// Name in reports and cost models: that of the kind, except for custom kernels.
    fn name(&self) -> &str {
        self.kind().name()
    }

    /// Inputs, in the order of `cpu` and `record`.
    fn inputs(&self) -> Vec<&Tensor>;

    /// Dtypes and shapes of the results; the one place where inputs are checked. All other methods may assume that it succeeded.
    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError>;

    /// FLOPs, bytes and dispatches.
    fn cost(&self) -> OpCost;

    /// CPU path. `inputs` are the bytes of [`Op::inputs`]; `outputs` have the sizes of [`Op::outputs`] and arbitrary contents.
    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError>;

    /// Device path: appends its dispatches to a plan and returns the result slots, which may be padded to whole words.
    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError>;

    /// Index of a hidden guard result after those of [`Op::outputs`] in what [`Op::record`] returns. It must be all zero
    /// ([`guard_passed`]), or the visible results are invalid.
    fn guard(&self) -> Option<usize> {
        None
    }

    /// Kernel variants worth auto-tuning on a device; the first is the default.
    fn variants(&self) -> &'static [Variant] {
        &[Variant::PLAIN]
    }

    /// Independent items it can be partitioned into, and their granularity; `None` when it cannot be split.
    fn items(&self) -> Option<Items> {
        None
    }

    /// The same operation on a range of items. Its inputs are on the host.
    fn part(&self, _items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        Err(OpError::Value {
            op: self.kind().name(),
            what: "a partition",
            have: "requested".into(),
            limit: "it cannot be split",
        })
    }

    /// Joins the results of parts, in item order, into the results of the whole.
    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        concatenate(parts, outputs);
        Ok(())
    }

    /// Fusion key: operations with equal keys can be fused; `None` when it cannot be fused.
    fn fuse_key(&self) -> Option<u64> {
        None
    }

    /// Horizontal fusion: one operation that computes all of `group` (itself included, all with its key) in as few dispatches as one.
    fn fuse(&self, _group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        Ok(None)
    }

    /// For downcasting in [`Op::fuse`].
    fn as_any(&self) -> &dyn Any;
}

/// Does the guard confirm that the results are valid?
pub fn guard_passed(guard: &[u8]) -> bool {
    guard.iter().all(|byte| *byte == 0)
}

/// Partitioning of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items {
    /// Number of items.
    pub count: usize,
    /// Granularity: parts begin at multiples of this.
    pub grain: usize,
}

/// A fused group of operations.
#[derive(Debug, Clone)]
pub struct Fused {
    /// The fused operation.
    pub op: Arc<dyn Op>,
    /// For every operation of the group and each of its results: its byte range in the fused result.
    pub output_ranges: Vec<Vec<Range<usize>>>,
}

impl Fused {
    /// Operations whose results are `bytes` long each and contiguous.
    pub(crate) fn in_rows(op: Arc<dyn Op>, count: usize, bytes: usize) -> Fused {
        let range = |i: usize| std::iter::once(i * bytes..(i + 1) * bytes).collect();
        Fused { op, output_ranges: (0..count).map(range).collect() }
    }
}

/// Concatenates tensors; `None` where one is not on the host. The copy is deferred until a device needs it.
pub(crate) fn stack<'t>(
    tensors: impl IntoIterator<Item = &'t Tensor>,
    spec: TensorSpec,
) -> Result<Option<Tensor>, OpError> {
    let pieces: Option<Vec<Arc<[u8]>>> = tensors.into_iter().map(Tensor::host).collect();
    Ok(pieces.map(|p| Tensor::from_bytes(HostBytes::from_chunks(p), spec)).transpose()?)
}

/// Concatenates the results of parts: right for everything split along the first dimension.
pub fn concatenate(parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) {
    for (i, whole) in outputs.iter_mut().enumerate() {
        let mut rest: &mut [u8] = whole;
        for bytes in parts.iter().filter_map(|p| p.get(i)) {
            let n = bytes.len().min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(bytes.get(..n).unwrap_or_default());
            rest = later;
        }
    }
}

/// Splits items into ranges of at most `most`, beginning at multiples of the grain.
pub fn split_ranges(items: Items, most: usize) -> Vec<Range<usize>> {
    let grain = items.grain.max(1);
    let step = (most / grain).max(1) * grain;
    (0..items.count).step_by(step).map(|start| start..(start + step).min(items.count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn par_for_each_visits_every_item_once() {
        for threads in [0, 1, 2, 5] {
            let mut hits = [0u8; 100];
            Threads(threads).par_for_each(hits.iter_mut(), |hit| *hit += 1);
            assert!(hits.iter().all(|h| *h == 1), "{threads} threads");
            Threads(threads).par_for_each(std::iter::empty::<u8>(), |_| unreachable!());
        }
    }

    #[test]
    fn ranges_begin_at_multiples_of_the_grain() {
        assert_eq!(split_ranges(Items { count: 10, grain: 4 }, 5), [0..4, 4..8, 8..10]);
        assert_eq!(split_ranges(Items { count: 10, grain: 4 }, 1), [0..4, 4..8, 8..10]);
        assert_eq!(
            split_ranges(Items { count: 10, grain: 1 }, 100).as_slice(),
            std::slice::from_ref(&(0..10))
        );
        assert_eq!(split_ranges(Items { count: 0, grain: 1 }, 100), Vec::<Range<usize>>::new());
    }

    #[test]
    fn parts_are_concatenated() {
        let parts = vec![vec![vec![1, 2], vec![9]], vec![vec![3], vec![8, 7]]];
        let (mut a, mut b) = (vec![0; 3], vec![0; 3]);
        concatenate(&parts, &mut [&mut a, &mut b]);
        assert_eq!((a, b), (vec![1, 2, 3], vec![9, 8, 7]));
    }
}
