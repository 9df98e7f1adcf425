//! Duty-cycle limit: accumulates busy and idle time and computes how long to sleep so that the busy share stays below a limit.
//!
//! Idle time is owed for all busy time, minus all idle time so far: a sleep that overshoots shortens the next one.

use std::time::{Duration, Instant};

use crate::batch::CancelToken;

/// Shortest sleep; less is carried over, because system sleeps are not exact.
const MIN_SLEEP: Duration = Duration::from_micros(500);
/// Largest idle credit: after a long stall, work must not run without pause for as long.
const MAX_CREDIT: Duration = Duration::from_millis(50);
/// Longest single sleep, so that cancellation is noticed soon.
const SLICE: Duration = Duration::from_millis(10);
/// Lowest duty cycle.
const MIN_LIMIT: f64 = 0.01;

/// Accounting of a duty cycle. Reads no clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DutyCycle {
    limit: f64,
    busy: Duration,
    idle: Duration,
}

impl DutyCycle {
    /// Limit between 0.01 and 1; NaN means no limit.
    pub fn new(limit: f64) -> Self {
        let limit = if limit.is_nan() { 1.0 } else { limit.clamp(MIN_LIMIT, 1.0) };
        DutyCycle { limit, busy: Duration::ZERO, idle: Duration::ZERO }
    }

    /// The limit in effect.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Idle time that belongs to the busy time so far.
    fn due(&self) -> Duration {
        self.busy.mul_f64(1.0 / self.limit - 1.0)
    }

    /// Adds busy time.
    pub fn add_busy(&mut self, busy: Duration) {
        self.busy += busy;
    }

    /// Adds idle time, whatever the reason.
    pub fn add_idle(&mut self, idle: Duration) {
        self.idle = (self.idle + idle).min(self.due() + MAX_CREDIT);
    }

    /// Idle time owed now.
    pub fn idle_owed(&self) -> Duration {
        let owed = self.due().saturating_sub(self.idle);
        if owed < MIN_SLEEP { Duration::ZERO } else { owed }
    }
}

/// Enforces a duty cycle on the real clock, for one thread that works in chunks.
#[derive(Debug)]
pub(crate) struct DutyThrottle {
    duty: Option<DutyCycle>,
    last: Instant,
}

impl DutyThrottle {
    pub(crate) fn new(limit: Option<f64>) -> Self {
        DutyThrottle { duty: limit.map(DutyCycle::new), last: Instant::now() }
    }

    /// A chunk of `busy` just ended: sleeps for what is owed, or until cancelled.
    pub(crate) fn throttle(&mut self, busy: Duration, cancel: Option<&CancelToken>) {
        let now = Instant::now();
        let between = now.duration_since(self.last).saturating_sub(busy);
        self.last = now;
        let Some(duty) = &mut self.duty else { return };
        duty.add_busy(busy);
        duty.add_idle(between);
        let owed = duty.idle_owed();
        loop {
            let slept = self.last.elapsed();
            if slept >= owed || cancel.is_some_and(CancelToken::is_cancelled) {
                break;
            }
            std::thread::sleep((owed - slept).min(SLICE));
        }
        let now = Instant::now();
        duty.add_idle(now.duration_since(self.last));
        self.last = now;
    }
}
