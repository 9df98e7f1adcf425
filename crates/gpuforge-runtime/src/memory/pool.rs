//! Is there an idle block that fits? Then nobody below is called. Else one is made, and kept when it comes back.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    AllocError, Allocation, Allocator, BlockClass, ClassPeak, Clock, Limits, Reclaim, Request, SizeClass,
    Tag,
    idle::Idle,
    sync::{AtomicU64, Mutex, Ordering, lock},
};
use crate::units::Bytes;

/// Blocks taken off the shelves in one critical section of a trim: short for those who allocate meanwhile, long enough
/// that a large trim is not all locking.
const BATCH: usize = 32;

/// What a pool keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSettings {
    /// No more idle bytes than this; the longest unused goes first. Zero switches pooling off.
    pub max_idle: Bytes,
    /// [`Pool::expire`] gives back blocks that were idle longer.
    pub idle_for: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        // No cap of its own: the clean-up at 85 % and the retry after a refusal make room when somebody needs it.
        PoolSettings { max_idle: Bytes(u64::MAX), idle_for: Duration::from_secs(300) }
    }
}

/// Keeps released blocks by size class and block class, and hands them out again.
pub struct Pool<A: Allocator> {
    below: A,
    clock: Arc<dyn Clock>,
    settings: PoolSettings,
    /// Read once: the capacity of a size class must not change while blocks of it exist.
    largest: Bytes,
    /// Bytes taken from below. Apart from the shelves, so that reading it costs no lock.
    held: AtomicU64,
    shelves: Mutex<Shelves<A::Block>>,
}

/// A block of a pool; only the pool can take it apart again.
#[derive(Debug)]
pub struct Pooled<B> {
    inner: Allocation<B>,
    shelf: Shelf,
}

impl<B> Pooled<B> {
    /// The allocation of the layer below the pool.
    pub fn inner(&self) -> &Allocation<B> {
        &self.inner
    }
}

/// A size class of a block class, counted as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shelf(usize);

impl Shelf {
    fn new(class: BlockClass, size: SizeClass) -> Self {
        Shelf(size.index() * BlockClass::ALL.len() + class as usize)
    }
}

#[derive(Debug)]
struct Shelves<B> {
    idle: Idle<Allocation<B>>,
    uses: Vec<Use>,
    counts: Counts,
}

/// How many blocks of a shelf are out.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    now: u32,
    peak: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
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
    // Wide: blocks that cost nothing to hand out again add up beyond 2^64 bytes within hours.
    asked_ever: u128,
    granted_ever: u128,
}

/// What a pool did and holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolStats {
    /// Requests answered with an idle block.
    pub hits: u64,
    /// Requests for which the layer below was asked.
    pub misses: u64,
    /// Hits in percent of all answered requests; `None` before the first.
    pub reuse_percent: Option<f64>,
    /// Bytes granted beyond what was asked, in percent of those granted, over all requests; `None` before the first.
    pub waste_percent: Option<f64>,
    /// Requests repeated after a trim because the layer below had no room.
    pub retries: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Blocks made ahead of the first request for them.
    pub prewarmed: u64,
    /// Idle blocks given back.
    pub trimmed_blocks: u64,
    /// Their bytes.
    pub trimmed: Bytes,
    /// Blocks on the shelves.
    pub idle_blocks: u64,
    /// Their bytes.
    pub idle: Bytes,
    /// Blocks that users hold.
    pub in_use_blocks: u64,
    /// Their capacity.
    pub in_use: Bytes,
    /// What their users asked for.
    pub asked_in_use: Bytes,
}

impl<A: Allocator> Pool<A> {
    /// An empty pool over `below`.
    pub fn new(below: A, settings: PoolSettings, clock: Arc<dyn Clock>) -> Self {
        let shelves = Shelves { idle: Idle::default(), uses: Vec::new(), counts: Counts::default() };
        let largest = below.limits().largest();
        Pool { below, clock, settings, largest, held: AtomicU64::new(0), shelves: Mutex::new(shelves) }
    }

    /// The layer below.
    pub fn below(&self) -> &A {
        &self.below
    }

    /// Gives back what has been idle for longer than the settings say. Returns what was freed.
    pub fn expire(&self) -> Bytes {
        self.trim_older(self.settings.idle_for)
    }

    /// Gives back every block that has been idle for longer than `age`. Returns what was freed.
    pub fn trim_older(&self, age: Duration) -> Bytes {
        // A block released after this moment is never older than `age`, so the loop ends.
        let now = self.clock.now();
        self.evict(|idle, _| idle.oldest_since().is_some_and(|since| now.saturating_sub(since) > age))
    }

    /// Makes idle blocks ahead of need, as [`prewarm`](super::prewarm) decided. Stops at the first refusal: it neither
    /// trims nor retries, because nobody needs these blocks yet. Returns how many were made.
    pub fn fill(&self, class: BlockClass, size: Bytes, count: u32) -> u32 {
        let Ok((shelf, capacity)) = self.place(class, size) else { return 0 };
        for made in 0..count {
            if self.idle() + capacity > self.settings.max_idle {
                return made;
            }
            let request = Request { size: capacity, tag: Tag("prewarm"), class };
            let Ok(inner) = self.take_from_below(request) else { return made };
            let since = self.clock.now();
            let mut shelves = lock(&self.shelves);
            shelves.counts.prewarmed += 1;
            shelves.idle.put(shelf.0, capacity, since, inner);
        }
        count
    }

    /// The most blocks of each class that were in use together, for the history of the next run.
    pub fn peaks(&self) -> Vec<ClassPeak> {
        let uses = lock(&self.shelves).uses.clone();
        // Numbers back to classes through the same function that numbered them.
        let mut names = BTreeMap::new();
        for class in BlockClass::ALL {
            let mut size = Some(SizeClass::SMALLEST);
            while let Some(this) = size.filter(|size| Shelf::new(class, *size).0 < uses.len()) {
                names.insert(Shelf::new(class, this), (class, this));
                size = this.next();
            }
        }
        let peak = |(shelf, (class, size)): (&Shelf, &(BlockClass, SizeClass))| {
            let peak = uses.get(shelf.0).map_or(0, |u| u.peak);
            (peak > 0).then(|| ClassPeak { class: *class, size: size.size().min(self.largest), peak })
        };
        names.iter().filter_map(peak).collect()
    }

    /// Counts so far.
    pub fn stats(&self) -> PoolStats {
        let (c, idle, idle_blocks) = {
            let shelves = lock(&self.shelves);
            (shelves.counts, shelves.idle.bytes(), shelves.idle.len() as u64)
        };
        let percent = |part: u128, whole: u128| (whole > 0).then(|| part as f64 * 100.0 / whole as f64);
        let answered = (c.hits + c.misses).saturating_sub(c.failures);
        PoolStats {
            hits: c.hits,
            misses: c.misses,
            reuse_percent: percent(c.hits.into(), answered.into()),
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

    /// On which shelf a request belongs, and how large the blocks of that shelf are.
    fn place(&self, class: BlockClass, size: Bytes) -> Result<(Shelf, Bytes), AllocError> {
        let fits = SizeClass::of(size).filter(|_| size <= self.largest);
        let size_class = fits.ok_or(AllocError::TooLarge { asked: size, most: self.largest })?;
        // The last class is cut at the bound. That is safe because it depends on the class alone: every block of this
        // shelf has the same capacity, and every request that fits the bound fits the block.
        Ok((Shelf::new(class, size_class), size_class.size().min(self.largest)))
    }

    /// One block from below; when it has no room, one more try after letting idle blocks go.
    fn make(&self, request: Request) -> Result<Allocation<A::Block>, AllocError> {
        let error = match self.take_from_below(request) {
            Err(error) if error.is_shortage() => error,
            answer => return answer,
        };
        match error {
            // Our own cap says what is missing, so the rest of the pool can stay warm.
            AllocError::Limit { asked, used, limit } => {
                let missing = (used + asked) - limit;
                self.trim(self.idle() - missing)
            }
            // A device does not say, and may need the room in one piece.
            _ => self.trim(Bytes::ZERO),
        };
        lock(&self.shelves).counts.retries += 1;
        self.take_from_below(request)
    }

    fn take_from_below(&self, request: Request) -> Result<Allocation<A::Block>, AllocError> {
        let inner = self.below.allocate(request)?;
        self.held.fetch_add(request.size.0, Ordering::AcqRel);
        Ok(inner)
    }

    /// Gives the oldest blocks back while `more(idle, freed)` says so.
    fn evict(&self, more: impl Fn(&Idle<Allocation<A::Block>>, Bytes) -> bool) -> Bytes {
        let mut freed = Bytes::ZERO;
        loop {
            let mut batch = Vec::new();
            {
                let mut shelves = lock(&self.shelves);
                while batch.len() < BATCH && more(&shelves.idle, freed) {
                    let Some(block) = shelves.idle.take_oldest() else { break };
                    freed += block.capacity();
                    shelves.counts.trimmed += block.capacity();
                    shelves.counts.trimmed_blocks += 1;
                    batch.push(block);
                }
            }
            if batch.is_empty() {
                return freed;
            }
            for block in batch {
                let size = block.request().size;
                self.below.release(block);
                self.held.fetch_sub(size.0, Ordering::AcqRel);
            }
        }
    }
}

impl<B> Shelves<B> {
    /// Books a block as out.
    fn out(&mut self, shelf: Shelf, asked: Bytes, capacity: Bytes) {
        if self.uses.len() <= shelf.0 {
            self.uses.resize(shelf.0 + 1, Use::default());
        }
        if let Some(shelf) = self.uses.get_mut(shelf.0) {
            shelf.now += 1;
            shelf.peak = shelf.peak.max(shelf.now);
        }
        let c = &mut self.counts;
        c.in_use_blocks += 1;
        c.in_use += capacity;
        c.asked_in_use += asked;
        c.asked_ever += u128::from(asked.0);
        c.granted_ever += u128::from(capacity.0);
    }

    /// Books it as back.
    fn back(&mut self, shelf: Shelf, asked: Bytes, capacity: Bytes) {
        if let Some(shelf) = self.uses.get_mut(shelf.0) {
            shelf.now = shelf.now.saturating_sub(1);
        }
        let c = &mut self.counts;
        c.in_use_blocks = c.in_use_blocks.saturating_sub(1);
        c.in_use -= capacity;
        c.asked_in_use -= asked;
    }
}

impl<A: Allocator> Allocator for Pool<A> {
    type Block = Pooled<A::Block>;

    fn allocate(&self, request: Request) -> Result<Allocation<Pooled<A::Block>>, AllocError> {
        let (shelf, capacity) = self.place(request.class, request.size)?;
        let idle = {
            let mut shelves = lock(&self.shelves);
            let idle = shelves.idle.take(shelf.0);
            if idle.is_some() {
                shelves.counts.hits += 1;
                shelves.out(shelf, request.size, capacity);
            }
            idle
        };
        let inner = match idle {
            Some(inner) => inner,
            None => {
                let made = self.make(Request { size: capacity, ..request });
                let mut shelves = lock(&self.shelves);
                shelves.counts.misses += 1;
                match made {
                    Ok(inner) => {
                        shelves.out(shelf, request.size, capacity);
                        inner
                    }
                    Err(error) => {
                        shelves.counts.failures += 1;
                        return Err(error);
                    }
                }
            }
        };
        Ok(Allocation::with_capacity(Pooled { inner, shelf }, request, capacity))
    }

    fn release(&self, allocation: Allocation<Pooled<A::Block>>) {
        let (asked, capacity) = (allocation.request().size, allocation.capacity());
        let Pooled { inner, shelf } = allocation.into_block();
        let since = self.clock.now();
        let over = {
            let mut shelves = lock(&self.shelves);
            shelves.back(shelf, asked, capacity);
            shelves.idle.put(shelf.0, capacity, since, inner);
            shelves.idle.bytes() > self.settings.max_idle
        };
        if over {
            self.trim(self.settings.max_idle);
        }
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }
}

impl<A: Allocator> Reclaim for Pool<A> {
    fn held(&self) -> Bytes {
        Bytes(self.held.load(Ordering::Acquire))
    }

    fn idle(&self) -> Bytes {
        lock(&self.shelves).idle.bytes()
    }

    /// Blocks in use are not on the shelves, so they cannot be trimmed. What others release meanwhile does not
    /// lengthen the work: no more is freed than was too much at the start.
    fn trim(&self, keep: Bytes) -> Bytes {
        let goal = self.idle() - keep;
        self.evict(|idle, freed| freed < goal && idle.bytes() > keep)
    }

    fn granted(&self, size: Bytes) -> Option<Bytes> {
        self.place(BlockClass::Storage, size).ok().map(|(_, capacity)| capacity)
    }
}
