//! Memory stack: pressure events, eviction thresholds, re-entrant subscribers, prewarming, failure of every allocation.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code fails loudly")]

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use gpuforge_runtime::{
    memory::{
        AllocError, AllocRefusal, AllocRequest, AllocationHistory, BlockClass, ManualClock, MemoryStack,
        Pressure, PressureEvent, StackAllocation, StackSettings, StackStats, Tag,
    },
    units::Bytes,
};

mod memory_dummy;
use Pressure::{Critical, High, Low, Moderate};
use memory_dummy::{AllocFault, Dummy, Id, exactly, storage, within};

type Stack = MemoryStack<Dummy>;
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// A stack whose budget and limit are `blocks` blocks of 256 B.
fn stack(blocks: u64) -> Arc<Stack> {
    Arc::new(MemoryStack::new(Dummy::default(), StackSettings::new(exactly(blocks * 256))))
}

fn take(stack: &Stack, blocks: usize) -> Vec<StackAllocation<Id>> {
    (0..blocks).map(|_| stack.allocate(storage(256)).unwrap()).collect()
}

fn release(stack: &Stack, grants: impl IntoIterator<Item = StackAllocation<Id>>) {
    for grant in grants {
        stack.release(grant);
    }
}

/// Records events.
fn listen(stack: &Stack) -> Arc<Mutex<Vec<PressureEvent>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = events.clone();
    stack.subscribe(move |event| sink.lock().unwrap().push(*event));
    events
}

fn levels(events: &Mutex<Vec<PressureEvent>>) -> Vec<(Pressure, Pressure)> {
    events.lock().unwrap().iter().map(|e| (e.from, e.to)).collect()
}

#[test]
fn pressure_events_fire_exactly_at_the_boundaries() {
    let stack = stack(1000);
    let events = listen(&stack);
    let mut grants = Vec::new();
    let steps = [
        (599, Low, 0),
        (1, Moderate, 1),
        (199, Moderate, 1),
        (1, High, 2),
        (49, High, 2),
        (1, High, 2),
        (49, High, 2),
        (1, Critical, 3),
    ];
    for (more, level, count) in steps {
        grants.extend(take(&stack, more));
        assert_eq!(
            (stack.pressure(), events.lock().unwrap().len()),
            (level, count),
            "{} of 1000",
            grants.len()
        );
    }
    assert_eq!(levels(&events), [(Low, Moderate), (Moderate, High), (High, Critical)]);
    let used: Vec<_> = events.lock().unwrap().iter().map(|e| e.used.0 / 256).collect();
    assert_eq!(used, [600, 800, 900]);
    assert_eq!(stack.stats().monitor.evictions, 0, "nothing idle: nothing to evict");
}

#[test]
fn eviction_starts_at_85_percent_and_stops_at_75() {
    let stack = stack(1000);
    let mut grants = take(&stack, 849);
    release(&stack, grants.drain(..200));
    assert_eq!(stack.stats().monitor.evictions, 0, "84.9 %");
    assert_eq!(stack.stats().pool.idle, Bytes(200 * 256));
    // Another block class: a pool miss, so that 85.0 % is held.
    let one = stack.allocate(AllocRequest { class: BlockClass::Uniform, ..storage(256) }).unwrap();
    let stats = stack.stats();
    assert_eq!((stats.monitor.evictions, stats.monitor.freed), (1, Bytes(100 * 256)));
    assert_eq!((stats.limit.used, stats.pool.idle), (Bytes(750 * 256), Bytes(100 * 256)));
    assert_eq!(stack.pressure(), Moderate);
    assert_eq!(stack.device().live(), Bytes(750 * 256));
    release(&stack, grants.into_iter().chain([one]));
    assert_eq!(stack.stats().users.live, Bytes::ZERO);
}

#[test]
fn release_under_pressure_evicts_and_notifies() {
    let stack = stack(100);
    let events = listen(&stack);
    let grants = take(&stack, 95);
    release(&stack, grants);
    // Each release leaves one idle block, which is evicted at once, until fewer than 85 are held.
    assert_eq!(stack.stats().limit.used, Bytes(84 * 256));
    let expected = [(Low, Moderate), (Moderate, High), (High, Critical), (Critical, High)];
    assert_eq!(levels(&events), expected);
    stack.trim(Bytes::ZERO);
    assert_eq!(levels(&events)[4..], [(High, Low)]);
}

#[test]
fn can_allocate_accounts_for_rounding_limit_and_evictable_blocks() {
    let stack = stack(10);
    assert_eq!(stack.can_allocate(Bytes(2560)), Ok(()));
    assert_eq!(
        stack.can_allocate(Bytes(2561)),
        Err(AllocRefusal::TooLarge { asked: Bytes(2561), most: Bytes(2560) })
    );
    let mut grants = take(&stack, 8);
    assert_eq!(stack.can_allocate(Bytes(512)), Ok(()));
    // 513 would be rounded to 576.
    let why = stack.can_allocate(Bytes(513)).unwrap_err();
    assert_eq!(why, AllocRefusal::InUse { granted: Bytes(576), in_use: Bytes(2048), limit: Bytes(2560) });
    assert!(stack.allocate(storage(513)).is_err(), "as predicted");
    // Idle blocks can be evicted: 7 in use.
    release(&stack, grants.pop());
    assert_eq!(stack.can_allocate(Bytes(576)), Ok(()));
    grants.push(stack.allocate(storage(576)).unwrap());
    release(&stack, grants);
}

#[test]
fn subscriber_may_allocate_release_and_unsubscribe() {
    within(DEADLOCK_TIMEOUT, || {
        let stack = stack(100);
        let weak: Weak<Stack> = Arc::downgrade(&stack);
        let own = Arc::new(OnceLock::new());
        let id = own.clone();
        let inner = weak.clone();
        own.set(stack.subscribe(move |event| {
            let stack = inner.upgrade().unwrap();
            let grants = take(&stack, 5);
            assert!(stack.stats().users.live > Bytes::ZERO && stack.can_allocate(Bytes(1)).is_ok());
            release(&stack, grants);
            stack.subscribe(|_| {});
            if event.to == High {
                assert!(stack.unsubscribe(*id.get().unwrap()));
            }
        }))
        .unwrap();
        let events = listen(&stack);
        let grants = take(&stack, 84);
        assert_eq!(levels(&events), [(Low, Moderate), (Moderate, High)]);
        release(&stack, grants);
        stack.trim(Bytes::ZERO);
        assert_eq!(stack.stats().monitor.subscriber_panics, 0);
        assert_eq!((stack.stats().users.live, stack.device().live()), (Bytes::ZERO, Bytes::ZERO));
    });
}

#[test]
fn subscriber_that_reverses_every_event_terminates() {
    within(DEADLOCK_TIMEOUT, || {
        let stack = stack(10);
        let weak = Arc::downgrade(&stack);
        let hoard = Mutex::new(Vec::new());
        // Allocates at low pressure and frees at high pressure: each event causes the next.
        stack.subscribe(move |event| {
            let stack = weak.upgrade().unwrap();
            let mut hoard = hoard.lock().unwrap();
            if event.to >= Moderate {
                release(&stack, hoard.drain(..));
                stack.trim(Bytes::ZERO);
            } else {
                hoard.extend(take(&stack, 4));
            }
        });
        let grants = take(&stack, 5);
        // Now 5 of 10; the sixth crosses 60 %, nothing can be freed, the trim changes nothing.
        let more = take(&stack, 1);
        release(&stack, more);
        stack.trim(Bytes::ZERO);
        assert!(stack.stats().monitor.events >= 3);
        release(&stack, grants);
    });
}

#[test]
fn subscriber_panic_is_caught_and_counted() {
    let stack = stack(10);
    stack.subscribe(|_| panic!("bug in the subscriber"));
    let events = listen(&stack);
    let grants = take(&stack, 9);
    assert_eq!(levels(&events).len(), 3, "the next subscriber received all");
    assert_eq!(stack.stats().monitor.subscriber_panics, 3);
    release(&stack, grants);
    assert_eq!(stack.stats().users.live, Bytes::ZERO);
}

#[test]
fn zero_budget_is_an_error() {
    let stack = stack(0);
    assert_eq!(stack.pressure(), Critical);
    assert!(matches!(stack.allocate(storage(1)), Err(AllocError::TooLarge { .. })));
    assert!(stack.can_allocate(Bytes(1)).is_err());
}

#[test]
fn idle_blocks_are_no_leaks_but_held_ones_are() {
    let clock = Arc::new(ManualClock::default());
    let settings = StackSettings::new(exactly(1 << 20));
    let stack = MemoryStack::with_clock(Dummy::default(), settings, clock.clone());
    let held = stack.allocate(AllocRequest { tag: Tag("held"), ..storage(100) }).unwrap();
    let back = stack.allocate(AllocRequest { tag: Tag("back"), ..storage(100) }).unwrap();
    stack.release(back);
    clock.advance(Duration::from_secs(301));
    let tags: Vec<_> = stack.leaks().old.into_iter().map(|b| b.tag).collect();
    assert_eq!(tags, ["held"]);
    // And the pool's expiry by age.
    assert_eq!(stack.tick(), Bytes(256));
    assert_eq!(stack.device().live(), Bytes(256));
    stack.release(held);
}

#[test]
fn next_run_is_prewarmed_within_its_share() {
    let first = stack(100);
    let grants = take(&first, 12);
    release(&first, grants);
    let history = AllocationHistory::default().learn(&first.peaks());
    let history: AllocationHistory = serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap();

    let second = stack(100);
    assert_eq!(second.prewarm(&history), 12);
    let grants = take(&second, 12);
    assert_eq!((second.device().calls().0, second.stats().pool.reuse_percent), (12, Some(100.0)));
    release(&second, grants);

    // 25 % of 20 blocks.
    let small = stack(20);
    assert_eq!(small.prewarm(&history), 5);
    assert_eq!(small.stats().limit.used, Bytes(5 * 256));
}

#[test]
fn statistics_round_trip_through_json() {
    let stack = stack(10);
    let grants = take(&stack, 7);
    let stats = stack.stats();
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<StackStats>(&text).unwrap(), stats);
    assert!(text.contains("\"moderate\"") && text.contains("\"user\""), "{text}");
    release(&stack, grants);
}

/// Sixty requests of mixed sizes with releases and trims in between; failures are skipped.
fn scenario(stack: &Stack) -> u64 {
    let mut live = Vec::new();
    let mut failed = 0;
    for step in 0..60_u64 {
        match stack.allocate(storage(200 + step * 97 % 3000)) {
            Ok(grant) => live.push(grant),
            Err(_) => failed += 1,
        }
        if step % 3 == 2 && !live.is_empty() {
            release(stack, [live.remove((step as usize * 7) % live.len())]);
        }
        if step % 20 == 19 {
            stack.trim(Bytes(1024));
        }
        let stats = stack.stats();
        assert_eq!(stats.pool.in_use, live.iter().map(StackAllocation::capacity).sum());
        assert_eq!(stats.pool.in_use + stats.pool.idle, stack.device().live());
        assert_eq!(stats.limit.used, stack.device().live());
        assert_eq!(stats.device.live, stack.device().live());
        assert_eq!(stats.users.live, live.iter().map(|g| g.request().size).sum());
        assert!(stats.limit.peak <= stats.limit.limit);
    }
    release(stack, live);
    stack.trim(Bytes::ZERO);
    let stats = stack.stats();
    let left = [stats.users.live, stats.pool.in_use, stats.pool.idle, stats.limit.used, stats.device.live];
    assert_eq!(left, [Bytes::ZERO; 5]);
    assert_eq!(stack.device().live(), Bytes::ZERO);
    failed
}

#[test]
fn accounting_is_exact_whichever_allocation_fails() {
    // Once with ample memory and once so tight that the limit refuses requests, too.
    for blocks in [1000, 150] {
        let clean = stack(blocks);
        let failed_anyway = scenario(&clean);
        assert_eq!(failed_anyway > 0, blocks == 150);
        let calls = clean.device().calls().0;
        assert!(calls > 20);
        for n in 1..=calls {
            // Alone: the retry succeeds. With its retry: one more request fails.
            let once = stack(blocks);
            once.device().fail([n], AllocFault::OutOfMemory);
            scenario(&once);
            assert!(once.stats().pool.retries >= 1, "call {n}");
            let twice = stack(blocks);
            twice.device().fail([n, n + 1], AllocFault::OutOfMemory);
            assert!(scenario(&twice) >= 1, "calls {n} and {}", n + 1);
            let lost = stack(blocks);
            lost.device().fail([n], AllocFault::Lost);
            assert!(scenario(&lost) >= 1, "call {n}");
        }
    }
}
