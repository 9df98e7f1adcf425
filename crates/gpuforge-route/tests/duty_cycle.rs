//! Duty cycle: the busy share stays at its limit, on a simulated and on the real clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{sync::Arc, time::Duration};

use gpuforge_route::{
    BatchOptions, CancelToken, CpuBackend, Item, Router, RouterSettings, duty_cycle::DutyCycle,
};

const MS: Duration = Duration::from_millis(1);

/// Simulates chunks; sleeps overshoot by `over`, and there is a delay `between` chunks.
fn share(limit: f64, chunks: &[Duration], over: impl Fn(usize) -> Duration, between: Duration) -> f64 {
    let mut duty = DutyCycle::new(limit);
    let (mut busy, mut all) = (Duration::ZERO, Duration::ZERO);
    for (i, chunk) in chunks.iter().enumerate() {
        duty.add_idle(between);
        duty.add_busy(*chunk);
        let rest = match duty.idle_owed() {
            Duration::ZERO => Duration::ZERO,
            owed => owed + over(i),
        };
        duty.add_idle(rest);
        busy += *chunk;
        all += *chunk + rest + between;
    }
    busy.as_secs_f64() / all.as_secs_f64()
}

#[test]
fn overlong_sleeps_are_compensated() {
    let chunks = [5 * MS; 200];
    for limit in [0.1, 0.5, 0.8, 0.95] {
        let exact = share(limit, &chunks, |_| Duration::ZERO, Duration::ZERO);
        assert!((exact - limit).abs() < 0.005, "{limit}: {exact}");
        let sloppy = share(limit, &chunks, |i| MS.mul_f64(0.1 + (i % 5) as f64 / 5.0), MS / 10);
        assert!((sloppy - limit).abs() < 0.03, "{limit}: {sloppy}");
    }
}

#[test]
fn chunks_of_any_length_keep_the_limit() {
    // Shorter than the shortest sleep: idle time accumulates until it is worth one.
    let tiny = share(0.8, &[MS / 50; 5_000], |_| MS / 20, Duration::ZERO);
    assert!((tiny - 0.8).abs() < 0.02, "{tiny}");
    let mixed: Vec<Duration> = (0..300).map(|i| MS * (i * 37 % 50)).collect();
    let mixed = share(0.8, &mixed, |_| MS, Duration::ZERO);
    assert!((mixed - 0.8).abs() < 0.01, "{mixed}");
}

#[test]
fn a_long_stall_gives_bounded_credit() {
    let mut duty = DutyCycle::new(0.5);
    duty.add_busy(10 * MS);
    duty.add_idle(Duration::from_secs(60));
    duty.add_busy(Duration::from_secs(1));
    assert!(duty.idle_owed() > 900 * MS, "{:?}", duty.idle_owed());
}

#[test]
fn limits_are_clamped() {
    for (asked, kept) in [(f64::NAN, 1.0), (2.0, 1.0), (1.0, 1.0), (0.0, 0.01), (-1.0, 0.01), (0.3, 0.3)] {
        assert_eq!(DutyCycle::new(asked).limit(), kept);
    }
    let mut all = DutyCycle::new(1.0);
    all.add_busy(Duration::from_secs(5));
    assert_eq!(all.idle_owed(), Duration::ZERO);
}

fn spin(time: Duration) -> Item {
    Item::call(move || {
        let began = std::time::Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
        Ok(Vec::new())
    })
}

fn router() -> Router {
    Router::new(vec![Arc::new(CpuBackend::default())], Vec::new(), RouterSettings::default())
}

#[test]
fn a_real_run_keeps_its_duty_cycle() {
    let threads = rayon::current_num_threads();
    let items = (0..300 * threads).map(|_| spin(3 * MS));
    let run = router().batch(items, BatchOptions { duty_cycle: Some(0.8), ..BatchOptions::default() });
    let share = run.stats.busy_share().unwrap();
    // Wide, because other work on the machine may stretch any sleep; `gpuforge-bench batch` asks for 0.75 to 0.85.
    assert!((0.70..=0.90).contains(&share), "{share}");
    assert!(run.stats.wall >= Duration::from_secs(1), "{:?}", run.stats.wall);
    assert_eq!(run.stats.failed, 0);
}

#[test]
fn cancellation_interrupts_a_long_sleep() {
    let token = CancelToken::new();
    let options = BatchOptions {
        duty_cycle: Some(0.01),
        cancel: Some(token.clone()),
        progress: Some(Box::new(move |_, _| token.cancel())),
        ..BatchOptions::default()
    };
    // One chunk of 50 ms asks for a sleep of 5 s.
    let run = router().batch((0..100).map(|_| spin(50 * MS)), options);
    assert!(run.stats.wall < Duration::from_secs(3), "{:?}", run.stats.wall);
    assert!(run.stats.failed > 0 && run.stats.failed < 100);
}
