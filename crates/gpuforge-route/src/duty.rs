//! How much of the time may work run? Sums of busy and idle time, and how long to rest so that their shares follow a limit.
//!
//! Rest is owed for all that was done, less all rest there was: a sleep that lasted too long is taken off the next one.

use std::time::{Duration, Instant};

use crate::batch::CancelToken;

/// Less than this is not slept but owed: a sleep of the system is not exact.
const LEAST: Duration = Duration::from_micros(500);
/// The most rest that is remembered as a credit: after a long stall work must not run without any rest for as long.
const CREDIT: Duration = Duration::from_millis(50);
/// The most that is slept at once, so that calling it off does not have to wait for long.
const SLICE: Duration = Duration::from_millis(10);
/// The least share that can be asked for.
const LOWEST: f64 = 0.01;

/// Keeps a share of the time. Reads no clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duty {
    limit: f64,
    busy: Duration,
    idle: Duration,
}

impl Duty {
    /// At most this share of the time, between 0.01 and 1; what is no number limits nothing.
    pub fn new(limit: f64) -> Self {
        let limit = if limit.is_nan() { 1.0 } else { limit.clamp(LOWEST, 1.0) };
        Duty { limit, busy: Duration::ZERO, idle: Duration::ZERO }
    }

    /// The share that is kept.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Rest that belongs to the work so far.
    fn due(&self) -> Duration {
        self.busy.mul_f64(1.0 / self.limit - 1.0)
    }

    /// Work was done.
    pub fn worked(&mut self, busy: Duration) {
        self.busy += busy;
    }

    /// Nothing was done, whatever the reason.
    pub fn rested(&mut self, idle: Duration) {
        self.idle = (self.idle + idle).min(self.due() + CREDIT);
    }

    /// How long to rest now.
    pub fn owed(&self) -> Duration {
        let owed = self.due().saturating_sub(self.idle);
        if owed < LEAST { Duration::ZERO } else { owed }
    }
}

/// A duty on the real clock, for one thread that works in chunks.
#[derive(Debug)]
pub(crate) struct Pace {
    duty: Option<Duty>,
    last: Instant,
}

impl Pace {
    pub(crate) fn new(limit: Option<f64>) -> Self {
        Pace { duty: limit.map(Duty::new), last: Instant::now() }
    }

    /// A chunk has just ended that took so long: rests for what is owed, or until it is called off.
    pub(crate) fn after(&mut self, busy: Duration, cancel: Option<&CancelToken>) {
        let now = Instant::now();
        let between = now.duration_since(self.last).saturating_sub(busy);
        self.last = now;
        let Some(duty) = &mut self.duty else { return };
        duty.worked(busy);
        duty.rested(between);
        let owed = duty.owed();
        loop {
            let rested = self.last.elapsed();
            if rested >= owed || cancel.is_some_and(CancelToken::is_cancelled) {
                break;
            }
            std::thread::sleep((owed - rested).min(SLICE));
        }
        let now = Instant::now();
        duty.rested(now.duration_since(self.last));
        self.last = now;
    }
}
