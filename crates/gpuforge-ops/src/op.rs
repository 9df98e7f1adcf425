//! What does every operation offer? Checked shapes, a processor path, a recorded path, and how it is cut and joined.

use std::{
    any::Any,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use gpuforge_runtime::{
    host::HostBytes,
    plan::{Plan, Slot},
    tensor::{Spec, Tensor},
};

use crate::{Effort, Kind, OpError, Target, Variant};

/// How many threads the processor path may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(pub usize);

impl Threads {
    /// One.
    pub const ONE: Threads = Threads(1);

    /// As many as the pool has; the caller may be one of them.
    pub fn all() -> Threads {
        Threads(rayon::current_num_threads())
    }

    /// Works through all items, each once, on so many threads. The caller is one of them and begins at once; threads that
    /// wake up late find less to do.
    pub fn each<T: Send>(self, items: impl IntoIterator<Item = T, IntoIter: Send>, work: impl Fn(T) + Sync) {
        if self.0 < 2 {
            return items.into_iter().for_each(work);
        }
        let waiting = Mutex::new(items.into_iter());
        let run = || {
            loop {
                // The lock is for taking an item only.
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

/// An operation on tensors: plain data. Making one costs nothing and checks nothing; [`Op::outputs`] checks.
pub trait Op: Any + fmt::Debug + Send + Sync {
    /// Which kind of work it is.
    fn kind(&self) -> Kind;

    /// Its name in reports and models; the kind's, unless it is somebody else's kernel.
    fn name(&self) -> &str {
        self.kind().name()
    }

    /// What it reads, in the order of `cpu` and `record`.
    fn inputs(&self) -> Vec<&Tensor>;

    /// Kinds and shapes of its results; the one place where inputs are checked. All other methods may assume that it
    /// succeeded.
    fn outputs(&self) -> Result<Vec<Spec>, OpError>;

    /// What it computes and touches.
    fn effort(&self) -> Effort;

    /// Computes on the processor. `inputs` are the bytes of [`Op::inputs`], `outputs` have the sizes of [`Op::outputs`]
    /// and hold anything.
    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError>;

    /// Appends its dispatches to a plan; returns the slots of its results. Slots may be larger than the results by the
    /// padding to whole words.
    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError>;

    /// Position of a hidden result behind those of [`Op::outputs`] in what [`Op::record`] returns. It must be all zero
    /// ([`trusted`]), or the visible results are not to be believed.
    fn guard(&self) -> Option<usize> {
        None
    }

    /// Variants of its kernels that are worth trying on a device; the first is the default.
    fn variants(&self) -> &'static [Variant] {
        &[Variant::PLAIN]
    }

    /// Independent items it could be cut into, and of how many at least a part should consist; `None` when it cannot be.
    fn items(&self) -> Option<Items> {
        None
    }

    /// The same operation on some of the items. Its inputs are on the host.
    fn part(&self, _items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        Err(OpError::Value {
            op: self.kind().name(),
            what: "a part",
            have: "asked for".into(),
            limit: "it is whole",
        })
    }

    /// Puts the results of parts, in the order of their items, into the results of the whole.
    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        concatenate(parts, outputs);
        Ok(())
    }

    /// Operations with equal keys can be fused; `None` when it cannot be at all.
    fn fuse_key(&self) -> Option<u64> {
        None
    }

    /// One operation that does all of `group` (itself among them, all with its key) in as few dispatches as one.
    fn fuse(&self, _group: &[&dyn Op]) -> Result<Option<Fused>, OpError> {
        Ok(None)
    }

    /// For [`Op::fuse`].
    fn as_any(&self) -> &dyn Any;
}

/// Does a guard say that the results can be believed?
pub fn trusted(guard: &[u8]) -> bool {
    guard.iter().all(|byte| *byte == 0)
}

/// How an operation may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items {
    /// How many there are.
    pub count: usize,
    /// Parts begin at multiples of this.
    pub grain: usize,
}

/// Many operations as one.
#[derive(Debug, Clone)]
pub struct Fused {
    /// The one.
    pub op: Arc<dyn Op>,
    /// For every operation of the group, for each of its results: which bytes of the same result of the one.
    pub places: Vec<Vec<Range<usize>>>,
}

impl Fused {
    /// Operations whose results are `bytes` long each and lie one after the other.
    pub(crate) fn in_rows(op: Arc<dyn Op>, count: usize, bytes: usize) -> Fused {
        let place = |i: usize| std::iter::once(i * bytes..(i + 1) * bytes).collect();
        Fused { op, places: (0..count).map(place).collect() }
    }
}

/// Tensors one after the other as one; `None` where one is not on the host. Nothing is copied before a device needs it.
pub(crate) fn stack<'t>(
    tensors: impl IntoIterator<Item = &'t Tensor>,
    spec: Spec,
) -> Result<Option<Tensor>, OpError> {
    let pieces: Option<Vec<Arc<[u8]>>> = tensors.into_iter().map(Tensor::host).collect();
    Ok(pieces.map(|p| Tensor::from_bytes(HostBytes::several(p), spec)).transpose()?)
}

/// Results of parts one after the other: right for everything that is cut along its first dimension.
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

/// Items cut into ranges of at most `most`, beginning at multiples of the grain; pure.
pub fn cut(items: Items, most: usize) -> Vec<Range<usize>> {
    let grain = items.grain.max(1);
    let step = (most / grain).max(1) * grain;
    (0..items.count).step_by(step).map(|start| start..(start + step).min(items.count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [0, 1, 2, 5] {
            let mut hits = [0u8; 100];
            Threads(threads).each(hits.iter_mut(), |hit| *hit += 1);
            assert!(hits.iter().all(|h| *h == 1), "{threads} threads");
            Threads(threads).each(std::iter::empty::<u8>(), |_| unreachable!());
        }
    }

    #[test]
    fn items_are_cut_at_grains() {
        assert_eq!(cut(Items { count: 10, grain: 4 }, 5), [0..4, 4..8, 8..10]);
        assert_eq!(cut(Items { count: 10, grain: 4 }, 1), [0..4, 4..8, 8..10]);
        assert_eq!(cut(Items { count: 10, grain: 1 }, 100).as_slice(), std::slice::from_ref(&(0..10)));
        assert_eq!(cut(Items { count: 0, grain: 1 }, 100), Vec::<Range<usize>>::new());
    }

    #[test]
    fn parts_are_put_one_after_the_other() {
        let parts = vec![vec![vec![1, 2], vec![9]], vec![vec![3], vec![8, 7]]];
        let (mut a, mut b) = (vec![0; 3], vec![0; 3]);
        concatenate(&parts, &mut [&mut a, &mut b]);
        assert_eq!((a, b), (vec![1, 2, 3], vec![9, 8, 7]));
    }
}
