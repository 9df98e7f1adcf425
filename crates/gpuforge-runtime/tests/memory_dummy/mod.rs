//! Test device for the memory layers: counts calls, checks every release, fails on demand.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code fails loudly")]

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use gpuforge_runtime::{
    memory::{
        AllocError, AllocLimits, AllocRequest, Allocation, Allocator, BlockClass, Budget, BudgetOrigin, Tag,
    },
    units::Bytes,
};

/// How the n-th allocation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocFault {
    OutOfMemory,
    Lost,
    Panic,
}

#[derive(Debug, Default)]
pub(crate) struct Dummy {
    /// Capacity, if bounded.
    capacity: Option<Bytes>,
    /// The largest block.
    single: Option<Bytes>,
    faults: Mutex<HashMap<u64, AllocFault>>,
    live: Mutex<HashMap<u64, Bytes>>,
    allocations: AtomicU64,
    releases: AtomicU64,
    peak: AtomicU64,
}

/// A block of the dummy: its number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) u64);

impl Dummy {
    pub(crate) fn with_capacity(capacity: Bytes) -> Self {
        Dummy { capacity: Some(capacity), ..Dummy::default() }
    }

    pub(crate) fn with_largest(single: Bytes) -> Self {
        Dummy { single: Some(single), ..Dummy::default() }
    }

    /// The calls of `allocate` with these numbers, counted from 1, fail.
    pub(crate) fn fail(&self, numbers: impl IntoIterator<Item = u64>, fault: AllocFault) {
        self.faults.lock().unwrap().extend(numbers.into_iter().map(|n| (n, fault)));
    }

    /// Calls of `allocate` and `release` so far.
    pub(crate) fn calls(&self) -> (u64, u64) {
        (self.allocations.load(SeqCst), self.releases.load(SeqCst))
    }

    pub(crate) fn live(&self) -> Bytes {
        self.live.lock().unwrap().values().copied().sum()
    }

    pub(crate) fn ids(&self) -> BTreeSet<u64> {
        self.live.lock().unwrap().keys().copied().collect()
    }

    pub(crate) fn peak(&self) -> Bytes {
        Bytes(self.peak.load(SeqCst))
    }
}

impl Allocator for Dummy {
    type Block = Id;

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<Id>, AllocError> {
        let number = self.allocations.fetch_add(1, SeqCst) + 1;
        let fault = self.faults.lock().unwrap().get(&number).copied();
        let out_of_memory = AllocError::OutOfMemory { asked: request.size, tag: request.tag };
        match fault {
            Some(AllocFault::OutOfMemory) => return Err(out_of_memory),
            Some(AllocFault::Lost) => return Err(AllocError::Device { reason: "lost".into() }),
            Some(AllocFault::Panic) => panic!("injected panic"),
            None => {}
        }
        let mut live = self.live.lock().unwrap();
        let sum = live.values().copied().sum::<Bytes>() + request.size;
        if self.capacity.is_some_and(|capacity| sum > capacity) {
            return Err(out_of_memory);
        }
        live.insert(number, request.size);
        self.peak.fetch_max(sum.0, SeqCst);
        Ok(Allocation::new(Id(number), request))
    }

    fn release(&self, allocation: Allocation<Id>) {
        let size = allocation.request().size;
        let removed = self.live.lock().unwrap().remove(&allocation.block().0);
        assert_eq!(removed, Some(size), "released something that was not allocated");
        self.releases.fetch_add(1, SeqCst);
    }

    fn limits(&self) -> AllocLimits {
        AllocLimits { total: self.capacity, single: self.single }
    }
}

pub(crate) fn storage(size: u64) -> AllocRequest {
    AllocRequest { size: Bytes(size), tag: Tag("test"), class: BlockClass::Storage }
}

/// A budget whose limit is exactly `bytes`.
pub(crate) fn exactly(bytes: u64) -> Budget {
    Budget { bytes: Bytes(bytes), origin: BudgetOrigin::User }
}

/// Deterministic pseudo-random numbers (xorshift64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Panics when `work` misses its deadline: a deadlock must not hang the test run.
pub(crate) fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || {
        let _ = done.send(work());
    });
    match result.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("not done within {limit:?}: deadlock?"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => unreachable!("the worker sends before it ends"),
        },
    }
}
