//! Buffer pool (pool memory resource): size classes over free lists, LRU eviction, one retry after OOM.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    AllocError, AllocLimits, AllocRequest, Allocation, Allocator, BlockClass, ClassPeak, Clock, Reclaim,
    SizeClass, Tag,
    free_list::FreeLists,
    sync::{AtomicU64, Mutex, Ordering, lock},
};
use crate::units::Bytes;

/// Blocks evicted per critical section: short for concurrent allocations, long enough that a large trim is not all
/// locking.
const EVICTION_BATCH: usize = 32;

/// Settings of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSettings {
    /// Maximum of idle bytes, evicted in LRU order. Zero switches pooling off.
    pub max_idle: Bytes,
    /// [`Pool::expire`] frees blocks that were idle longer.
    pub idle_for: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        // No cap of its own: eviction at 85 % pressure and the retry after OOM free memory when it is needed.
        PoolSettings { max_idle: Bytes(u64::MAX), idle_for: Duration::from_secs(300) }
    }
}

/// Caches released blocks per size class and block class, and reuses them.
pub struct Pool<A: Allocator> {
    upstream: A,
    clock: Arc<dyn Clock>,
    settings: PoolSettings,
    /// Read once: the capacity of a size class must not change while blocks of it exist.
    largest: Bytes,
    /// Bytes allocated upstream. Outside the mutex, so that reading it costs no lock.
    held: AtomicU64,
    state: Mutex<PoolState<A::Block>>,
}

/// A block of a pool; only the pool can unwrap it.
#[derive(Debug)]
pub struct Pooled<B> {
    inner: Allocation<B>,
    bin: Bin,
}

impl<B> Pooled<B> {
    /// The upstream allocation.
    pub fn inner(&self) -> &Allocation<B> {
        &self.inner
    }
}

/// A bin: size class × block class, as one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bin(usize);

impl Bin {
    fn new(class: BlockClass, size: SizeClass) -> Self {
        Bin(size.index() * BlockClass::ALL.len() + class as usize)
    }
}

#[derive(Debug)]
struct PoolState<B> {
    free: FreeLists<Allocation<B>>,
    bins: Vec<BinUsage>,
    counters: PoolCounters,
}

/// Blocks of a bin in use.
#[derive(Debug, Clone, Copy, Default)]
struct BinUsage {
    now: u32,
    peak: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct PoolCounters {
    hits: u64,
    misses: u64,
    retries: u64,
    failures: u64,
    prewarmed: u64,
    trimmed_blocks: u64,
    trimmed: Bytes,
    in_use_blocks: u64,
    in_use: Bytes,
    asked_in_use: Bytes,
    // u128: blocks that are reused at no cost add up beyond 2^64 bytes within hours.
    asked_ever: u128,
    granted_ever: u128,
}

/// Statistics of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolStats {
    /// Requests served from a free list.
    pub hits: u64,
    /// Requests that went to the upstream allocator.
    pub misses: u64,
    /// Hit rate in percent of all successful requests; `None` before the first.
    pub reuse_percent: Option<f64>,
    /// Internal fragmentation: bytes beyond the request in percent of those allocated; `None` before the first.
    pub waste_percent: Option<f64>,
    /// Requests retried after eviction because the upstream was out of memory.
    pub retries: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Blocks allocated ahead of the first request for them.
    pub prewarmed: u64,
    /// Idle blocks evicted.
    pub trimmed_blocks: u64,
    /// Their bytes.
    pub trimmed: Bytes,
    /// Blocks in free lists.
    pub idle_blocks: u64,
    /// Their bytes.
    pub idle: Bytes,
    /// Blocks in use.
    pub in_use_blocks: u64,
    /// Their capacity.
    pub in_use: Bytes,
    /// Their requested bytes.
    pub asked_in_use: Bytes,
}

impl<A: Allocator> Pool<A> {
    /// An empty pool over `upstream`.
    pub fn new(upstream: A, settings: PoolSettings, clock: Arc<dyn Clock>) -> Self {
        let state =
            PoolState { free: FreeLists::default(), bins: Vec::new(), counters: PoolCounters::default() };
        let largest = upstream.limits().largest();
        Pool { upstream, clock, settings, largest, held: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// The upstream allocator.
    pub fn upstream(&self) -> &A {
        &self.upstream
    }

    /// Frees blocks that were idle longer than [`PoolSettings::idle_for`]. Returns the bytes freed.
    pub fn expire(&self) -> Bytes {
        self.trim_older(self.settings.idle_for)
    }

    /// Frees every block that was idle longer than `age`. Returns the bytes freed.
    pub fn trim_older(&self, age: Duration) -> Bytes {
        // A block released after this moment is never older than `age`, so the loop ends.
        let now = self.clock.now();
        self.evict(|free, _| free.oldest_since().is_some_and(|since| now.saturating_sub(since) > age))
    }

    /// Allocates idle blocks ahead of need, as [`prewarm`](super::prewarm) decided. Stops at the first failure: it neither
    /// evicts nor retries, because nobody needs these blocks yet. Returns the number of blocks.
    pub fn preallocate(&self, class: BlockClass, size: Bytes, count: u32) -> u32 {
        let Ok((bin, capacity)) = self.bin_of(class, size) else { return 0 };
        for made in 0..count {
            if self.idle() + capacity > self.settings.max_idle {
                return made;
            }
            let request = AllocRequest { size: capacity, tag: Tag("prewarm"), class };
            let Ok(inner) = self.allocate_upstream(request) else { return made };
            let since = self.clock.now();
            let mut state = lock(&self.state);
            state.counters.prewarmed += 1;
            state.free.push(bin.0, capacity, since, inner);
        }
        count
    }

    /// High-water marks per class, for the history of the next run.
    pub fn peaks(&self) -> Vec<ClassPeak> {
        let bins = lock(&self.state).bins.clone();
        // From indices back to classes through the same function that numbered them.
        let mut names = BTreeMap::new();
        for class in BlockClass::ALL {
            let mut size = Some(SizeClass::SMALLEST);
            while let Some(this) = size.filter(|size| Bin::new(class, *size).0 < bins.len()) {
                names.insert(Bin::new(class, this), (class, this));
                size = this.next();
            }
        }
        let peak = |(bin, (class, size)): (&Bin, &(BlockClass, SizeClass))| {
            let peak = bins.get(bin.0).map_or(0, |usage| usage.peak);
            (peak > 0).then(|| ClassPeak { class: *class, size: size.size().min(self.largest), peak })
        };
        names.iter().filter_map(peak).collect()
    }

    /// Statistics so far.
    pub fn stats(&self) -> PoolStats {
        let (c, idle, idle_blocks) = {
            let state = lock(&self.state);
            (state.counters, state.free.bytes(), state.free.len() as u64)
        };
        let percent = |part: u128, whole: u128| (whole > 0).then(|| part as f64 * 100.0 / whole as f64);
        let succeeded = (c.hits + c.misses).saturating_sub(c.failures);
        PoolStats {
            hits: c.hits,
            misses: c.misses,
            reuse_percent: percent(c.hits.into(), succeeded.into()),
            waste_percent: percent(c.granted_ever - c.asked_ever, c.granted_ever),
            retries: c.retries,
            failures: c.failures,
            prewarmed: c.prewarmed,
            trimmed_blocks: c.trimmed_blocks,
            trimmed: c.trimmed,
            idle_blocks,
            idle,
            in_use_blocks: c.in_use_blocks,
            in_use: c.in_use,
            asked_in_use: c.asked_in_use,
        }
    }

    /// The bin of a request, and the block size of that bin.
    fn bin_of(&self, class: BlockClass, size: Bytes) -> Result<(Bin, Bytes), AllocError> {
        let fits = SizeClass::of(size).filter(|_| size <= self.largest);
        let size_class = fits.ok_or(AllocError::TooLarge { asked: size, most: self.largest })?;
        // The last class is clamped to the bound. That is safe because it depends on the class alone: every block of
        // this bin has the same capacity, and every request that fits the bound fits the block.
        Ok((Bin::new(class, size_class), size_class.size().min(self.largest)))
    }

    /// Allocates upstream; on OOM evicts idle blocks and retries once.
    fn allocate_with_retry(&self, request: AllocRequest) -> Result<Allocation<A::Block>, AllocError> {
        let error = match self.allocate_upstream(request) {
            Err(error) if error.is_out_of_memory() => error,
            result => return result,
        };
        match error {
            // The limiting adaptor says how much is missing, so the rest of the pool can stay warm.
            AllocError::Limit { asked, used, limit } => {
                let missing = (used + asked) - limit;
                self.trim(self.idle() - missing)
            }
            // A device does not say, and may need the memory contiguous.
            _ => self.trim(Bytes::ZERO),
        };
        lock(&self.state).counters.retries += 1;
        self.allocate_upstream(request)
    }

    fn allocate_upstream(&self, request: AllocRequest) -> Result<Allocation<A::Block>, AllocError> {
        let inner = self.upstream.allocate(request)?;
        self.held.fetch_add(request.size.0, Ordering::AcqRel);
        Ok(inner)
    }

    /// Evicts in LRU order while `more(free, freed)` holds.
    fn evict(&self, more: impl Fn(&FreeLists<Allocation<A::Block>>, Bytes) -> bool) -> Bytes {
        let mut freed = Bytes::ZERO;
        loop {
            let mut batch = Vec::new();
            {
                let mut state = lock(&self.state);
                while batch.len() < EVICTION_BATCH && more(&state.free, freed) {
                    let Some(block) = state.free.pop_oldest() else { break };
                    freed += block.capacity();
                    state.counters.trimmed += block.capacity();
                    state.counters.trimmed_blocks += 1;
                    batch.push(block);
                }
            }
            if batch.is_empty() {
                return freed;
            }
            for block in batch {
                let size = block.request().size;
                self.upstream.release(block);
                self.held.fetch_sub(size.0, Ordering::AcqRel);
            }
        }
    }
}

impl<B> PoolState<B> {
    /// Accounts for an allocated block.
    fn count_allocated(&mut self, bin: Bin, asked: Bytes, capacity: Bytes) {
        if self.bins.len() <= bin.0 {
            self.bins.resize(bin.0 + 1, BinUsage::default());
        }
        if let Some(bin) = self.bins.get_mut(bin.0) {
            bin.now += 1;
            bin.peak = bin.peak.max(bin.now);
        }
        let c = &mut self.counters;
        c.in_use_blocks += 1;
        c.in_use += capacity;
        c.asked_in_use += asked;
        c.asked_ever += u128::from(asked.0);
        c.granted_ever += u128::from(capacity.0);
    }

    /// Accounts for a released block.
    fn count_released(&mut self, bin: Bin, asked: Bytes, capacity: Bytes) {
        if let Some(bin) = self.bins.get_mut(bin.0) {
            bin.now = bin.now.saturating_sub(1);
        }
        let c = &mut self.counters;
        c.in_use_blocks = c.in_use_blocks.saturating_sub(1);
        c.in_use -= capacity;
        c.asked_in_use -= asked;
    }
}

impl<A: Allocator> Allocator for Pool<A> {
    type Block = Pooled<A::Block>;

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<Pooled<A::Block>>, AllocError> {
        let (bin, capacity) = self.bin_of(request.class, request.size)?;
        let reused = {
            let mut state = lock(&self.state);
            let reused = state.free.pop(bin.0);
            if reused.is_some() {
                state.counters.hits += 1;
                state.count_allocated(bin, request.size, capacity);
            }
            reused
        };
        let inner = match reused {
            Some(inner) => inner,
            None => {
                let allocated = self.allocate_with_retry(AllocRequest { size: capacity, ..request });
                let mut state = lock(&self.state);
                state.counters.misses += 1;
                match allocated {
                    Ok(inner) => {
                        state.count_allocated(bin, request.size, capacity);
                        inner
                    }
                    Err(error) => {
                        state.counters.failures += 1;
                        return Err(error);
                    }
                }
            }
        };
        Ok(Allocation::with_capacity(Pooled { inner, bin }, request, capacity))
    }

    fn release(&self, allocation: Allocation<Pooled<A::Block>>) {
        let (asked, capacity) = (allocation.request().size, allocation.capacity());
        let Pooled { inner, bin } = allocation.into_block();
        let since = self.clock.now();
        let over = {
            let mut state = lock(&self.state);
            state.count_released(bin, asked, capacity);
            state.free.push(bin.0, capacity, since, inner);
            state.free.bytes() > self.settings.max_idle
        };
        if over {
            self.trim(self.settings.max_idle);
        }
    }

    fn limits(&self) -> AllocLimits {
        self.upstream.limits()
    }
}

impl<A: Allocator> Reclaim for Pool<A> {
    fn held(&self) -> Bytes {
        Bytes(self.held.load(Ordering::Acquire))
    }

    fn idle(&self) -> Bytes {
        lock(&self.state).free.bytes()
    }

    /// Blocks in use are not in the free lists, so they cannot be evicted. What other threads release meanwhile does not
    /// lengthen the work: no more is freed than was over `keep` at the start.
    fn trim(&self, keep: Bytes) -> Bytes {
        let goal = self.idle() - keep;
        self.evict(|free, freed| freed < goal && free.bytes() > keep)
    }

    fn rounded_size(&self, size: Bytes) -> Option<Bytes> {
        self.bin_of(BlockClass::Storage, size).ok().map(|(_, capacity)| capacity)
    }
}
