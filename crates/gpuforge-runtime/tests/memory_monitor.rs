//! Does the whole stack tell the truth about pressure, clean up in time, and survive its subscribers and every fault?
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code fails loudly")]

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use gpuforge_runtime::{
    memory::{
        AllocError, BlockClass, Grant, History, ManualClock, MemoryStack, Pressure, PressureEvent, Request,
        StackSettings, StackStats, Tag, Why,
    },
    units::Bytes,
};

mod memory_dummy;
use Pressure::{Critical, High, Low, Moderate};
use memory_dummy::{Dummy, Fault, Id, exactly, storage, within};

type Stack = MemoryStack<Dummy>;
const PATIENCE: Duration = Duration::from_secs(60);

/// A stack whose budget and limit are `blocks` blocks of 256 B.
fn stack(blocks: u64) -> Arc<Stack> {
    Arc::new(MemoryStack::new(Dummy::default(), StackSettings::new(exactly(blocks * 256))))
}

fn take(stack: &Stack, blocks: usize) -> Vec<Grant<Id>> {
    (0..blocks).map(|_| stack.allocate(storage(256)).unwrap()).collect()
}

fn give(stack: &Stack, grants: impl IntoIterator<Item = Grant<Id>>) {
    for grant in grants {
        stack.release(grant);
    }
}

/// What a subscriber heard.
fn listen(stack: &Stack) -> Arc<Mutex<Vec<PressureEvent>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = heard.clone();
    stack.subscribe(move |event| ear.lock().unwrap().push(*event));
    heard
}

fn levels(heard: &Mutex<Vec<PressureEvent>>) -> Vec<(Pressure, Pressure)> {
    heard.lock().unwrap().iter().map(|e| (e.from, e.to)).collect()
}

#[test]
fn events_come_exactly_at_the_boundaries() {
    let stack = stack(1000);
    let heard = listen(&stack);
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
    for (more, level, events) in steps {
        grants.extend(take(&stack, more));
        assert_eq!(
            (stack.pressure(), heard.lock().unwrap().len()),
            (level, events),
            "{} of 1000",
            grants.len()
        );
    }
    assert_eq!(levels(&heard), [(Low, Moderate), (Moderate, High), (High, Critical)]);
    let used: Vec<_> = heard.lock().unwrap().iter().map(|e| e.used.0 / 256).collect();
    assert_eq!(used, [600, 800, 900]);
    assert_eq!(stack.stats().monitor.cleanups, 0, "nothing idle: nothing to clean");
}

#[test]
fn clean_up_starts_at_85_percent_and_ends_at_75() {
    let stack = stack(1000);
    let mut grants = take(&stack, 849);
    give(&stack, grants.drain(..200));
    assert_eq!(stack.stats().monitor.cleanups, 0, "84.9 %");
    assert_eq!(stack.stats().pool.idle, Bytes(200 * 256));
    // Another block class: a miss, so that 85.0 % are held.
    let one = stack.allocate(Request { class: BlockClass::Uniform, ..storage(256) }).unwrap();
    let stats = stack.stats();
    assert_eq!((stats.monitor.cleanups, stats.monitor.freed), (1, Bytes(100 * 256)));
    assert_eq!((stats.limit.used, stats.pool.idle), (Bytes(750 * 256), Bytes(100 * 256)));
    assert_eq!(stack.pressure(), Moderate);
    assert_eq!(stack.device().live(), Bytes(750 * 256));
    give(&stack, grants.into_iter().chain([one]));
    assert_eq!(stack.stats().users.live, Bytes::ZERO);
}

#[test]
fn a_release_under_pressure_is_cleaned_up_and_told() {
    let stack = stack(100);
    let heard = listen(&stack);
    let grants = take(&stack, 95);
    give(&stack, grants);
    // Each release leaves one idle block, which goes at once, until fewer than 85 are held.
    assert_eq!(stack.stats().limit.used, Bytes(84 * 256));
    let expected = [(Low, Moderate), (Moderate, High), (High, Critical), (Critical, High)];
    assert_eq!(levels(&heard), expected);
    stack.trim(Bytes::ZERO);
    assert_eq!(levels(&heard)[4..], [(High, Low)]);
}

#[test]
fn can_allocate_counts_rounding_limit_and_what_could_be_trimmed() {
    let stack = stack(10);
    assert_eq!(stack.can_allocate(Bytes(2560)), Ok(()));
    assert_eq!(stack.can_allocate(Bytes(2561)), Err(Why::TooLarge { asked: Bytes(2561), most: Bytes(2560) }));
    let mut grants = take(&stack, 8);
    assert_eq!(stack.can_allocate(Bytes(512)), Ok(()));
    // 513 would be rounded to 576.
    let why = stack.can_allocate(Bytes(513)).unwrap_err();
    assert_eq!(why, Why::InUse { granted: Bytes(576), in_use: Bytes(2048), limit: Bytes(2560) });
    assert!(stack.allocate(storage(513)).is_err(), "and so it is");
    // Idle blocks do not stand in the way: 7 in use.
    give(&stack, grants.pop());
    assert_eq!(stack.can_allocate(Bytes(576)), Ok(()));
    grants.push(stack.allocate(storage(576)).unwrap());
    give(&stack, grants);
}

#[test]
fn a_subscriber_may_allocate_release_and_unsubscribe() {
    within(PATIENCE, || {
        let stack = stack(100);
        let weak: Weak<Stack> = Arc::downgrade(&stack);
        let own = Arc::new(OnceLock::new());
        let id = own.clone();
        let inner = weak.clone();
        own.set(stack.subscribe(move |event| {
            let stack = inner.upgrade().unwrap();
            let grants = take(&stack, 5);
            assert!(stack.stats().users.live > Bytes::ZERO && stack.can_allocate(Bytes(1)).is_ok());
            give(&stack, grants);
            stack.subscribe(|_| {});
            if event.to == High {
                assert!(stack.unsubscribe(*id.get().unwrap()));
            }
        }))
        .unwrap();
        let heard = listen(&stack);
        let grants = take(&stack, 84);
        assert_eq!(levels(&heard), [(Low, Moderate), (Moderate, High)]);
        give(&stack, grants);
        stack.trim(Bytes::ZERO);
        assert_eq!(stack.stats().monitor.subscriber_panics, 0);
        assert_eq!((stack.stats().users.live, stack.device().live()), (Bytes::ZERO, Bytes::ZERO));
    });
}

#[test]
fn a_subscriber_that_turns_every_event_around_ends() {
    within(PATIENCE, || {
        let stack = stack(10);
        let weak = Arc::downgrade(&stack);
        let hoard = Mutex::new(Vec::new());
        // Takes memory when it gets loose and frees it when it gets tight: each event causes the next.
        stack.subscribe(move |event| {
            let stack = weak.upgrade().unwrap();
            let mut hoard = hoard.lock().unwrap();
            if event.to >= Moderate {
                give(&stack, hoard.drain(..));
                stack.trim(Bytes::ZERO);
            } else {
                hoard.extend(take(&stack, 4));
            }
        });
        let grants = take(&stack, 5);
        // Now 5 of 10; the sixth crosses 60 %, nothing can be given, the trim changes nothing.
        let more = take(&stack, 1);
        give(&stack, more);
        stack.trim(Bytes::ZERO);
        assert!(stack.stats().monitor.events >= 3);
        give(&stack, grants);
    });
}

#[test]
fn a_panicking_subscriber_costs_nothing_but_a_count() {
    let stack = stack(10);
    stack.subscribe(|_| panic!("a bug of the subscriber"));
    let heard = listen(&stack);
    let grants = take(&stack, 9);
    assert_eq!(levels(&heard).len(), 3, "the next subscriber heard all");
    assert_eq!(stack.stats().monitor.subscriber_panics, 3);
    give(&stack, grants);
    assert_eq!(stack.stats().users.live, Bytes::ZERO);
}

#[test]
fn no_budget_is_an_error_not_a_crash() {
    let stack = stack(0);
    assert_eq!(stack.pressure(), Critical);
    assert!(matches!(stack.allocate(storage(1)), Err(AllocError::TooLarge { .. })));
    assert!(stack.can_allocate(Bytes(1)).is_err());
}

#[test]
fn idle_blocks_are_not_leaks_but_held_ones_are() {
    let clock = Arc::new(ManualClock::default());
    let settings = StackSettings::new(exactly(1 << 20));
    let stack = MemoryStack::with_clock(Dummy::default(), settings, clock.clone());
    let held = stack.allocate(Request { tag: Tag("held"), ..storage(100) }).unwrap();
    let back = stack.allocate(Request { tag: Tag("back"), ..storage(100) }).unwrap();
    stack.release(back);
    clock.advance(Duration::from_secs(301));
    let tags: Vec<_> = stack.leaks().old.into_iter().map(|b| b.tag).collect();
    assert_eq!(tags, ["held"]);
    // And the pool's own clean-up by age.
    assert_eq!(stack.tick(), Bytes(256));
    assert_eq!(stack.device().live(), Bytes(256));
    stack.release(held);
}

#[test]
fn the_next_run_starts_warm_within_its_share() {
    let first = stack(100);
    let grants = take(&first, 12);
    give(&first, grants);
    let history = History::default().learn(&first.peaks());
    let history: History = serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap();

    let second = stack(100);
    assert_eq!(second.prewarm(&history), 12);
    let grants = take(&second, 12);
    assert_eq!((second.device().calls().0, second.stats().pool.reuse_percent), (12, Some(100.0)));
    give(&second, grants);

    // 25 % of 20 blocks.
    let small = stack(20);
    assert_eq!(small.prewarm(&history), 5);
    assert_eq!(small.stats().limit.used, Bytes(5 * 256));
}

#[test]
fn statistics_are_plain_data() {
    let stack = stack(10);
    let grants = take(&stack, 7);
    let stats = stack.stats();
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<StackStats>(&text).unwrap(), stats);
    assert!(text.contains("\"moderate\"") && text.contains("\"user\""), "{text}");
    give(&stack, grants);
}

/// Sixty requests of mixed sizes with releases and trims in between; what fails is left out.
fn scenario(stack: &Stack) -> u64 {
    let mut live = Vec::new();
    let mut failed = 0;
    for step in 0..60_u64 {
        match stack.allocate(storage(200 + step * 97 % 3000)) {
            Ok(grant) => live.push(grant),
            Err(_) => failed += 1,
        }
        if step % 3 == 2 && !live.is_empty() {
            give(stack, [live.remove((step as usize * 7) % live.len())]);
        }
        if step % 20 == 19 {
            stack.trim(Bytes(1024));
        }
        let stats = stack.stats();
        assert_eq!(stats.pool.in_use, live.iter().map(Grant::capacity).sum());
        assert_eq!(stats.pool.in_use + stats.pool.idle, stack.device().live());
        assert_eq!(stats.limit.used, stack.device().live());
        assert_eq!(stats.device.live, stack.device().live());
        assert_eq!(stats.users.live, live.iter().map(|g| g.request().size).sum());
        assert!(stats.limit.peak <= stats.limit.limit);
    }
    give(stack, live);
    stack.trim(Bytes::ZERO);
    let stats = stack.stats();
    let left = [stats.users.live, stats.pool.in_use, stats.pool.idle, stats.limit.used, stats.device.live];
    assert_eq!(left, [Bytes::ZERO; 5]);
    assert_eq!(stack.device().live(), Bytes::ZERO);
    failed
}

#[test]
fn whichever_allocation_fails_the_books_are_exact() {
    // Once with room to spare and once so tight that the limit refuses, too.
    for blocks in [1000, 150] {
        let clean = stack(blocks);
        let failed_anyway = scenario(&clean);
        assert_eq!(failed_anyway > 0, blocks == 150);
        let calls = clean.device().calls().0;
        assert!(calls > 20);
        for n in 1..=calls {
            // Alone: the retry helps. With its retry: one request more fails.
            let once = stack(blocks);
            once.device().fail([n], Fault::OutOfMemory);
            scenario(&once);
            assert!(once.stats().pool.retries >= 1, "call {n}");
            let twice = stack(blocks);
            twice.device().fail([n, n + 1], Fault::OutOfMemory);
            assert!(scenario(&twice) >= 1, "calls {n} and {}", n + 1);
            let lost = stack(blocks);
            lost.device().fail([n], Fault::Lost);
            assert!(scenario(&lost) >= 1, "call {n}");
        }
    }
}
