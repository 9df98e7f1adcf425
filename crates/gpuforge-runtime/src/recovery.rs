//! OOM recovery and device-lost recovery: a pure table from failure and attempts to the next step, with its reason.
//!
//! | failure | steps, in this order |
//! |---|---|
//! | OOM | evict idle buffers and retry, split the batch, fall back to the CPU |
//! | transfer failed | retry, reopen the device, fall back to the CPU |
//! | device lost, device hung | reopen the device and replay the plan (with backoff), fall back to the CPU |
//! | device unavailable | fall back to the CPU |
//! | invalid plan | give up: a retry would only repeat it |
//!
//! A [`CircuitBreaker`] keeps a device that fails repeatedly from being tried for every chunk.

use std::time::Duration;

use serde::Serialize;

use crate::engine::EngineError;

/// Failures, classified by how to recover from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// OOM: evict and retry, then split.
    OutOfMemory,
    /// Device lost: reopen it and replay the plan.
    #[serde(rename = "lost")]
    DeviceLost,
    /// Device hung (deadline exceeded): as lost, and none of its objects may be touched.
    #[serde(rename = "hung")]
    DeviceHung,
    /// A transfer failed, but the device reports good health.
    Transfer,
    /// The device cannot be opened.
    Unavailable,
    /// A bug in the plan or a kernel (validation error): never retried.
    #[serde(rename = "bug")]
    InvalidPlan,
}

impl FailureKind {
    /// For messages and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureKind::OutOfMemory => "out of memory",
            FailureKind::DeviceLost => "device lost",
            FailureKind::DeviceHung => "device hung",
            FailureKind::Transfer => "transfer failed",
            FailureKind::Unavailable => "device unavailable",
            FailureKind::InvalidPlan => "invalid plan",
        }
    }
}

/// Classifies an error.
pub fn classify(error: &EngineError) -> FailureKind {
    match error {
        EngineError::Memory(e) if e.is_out_of_memory() => FailureKind::OutOfMemory,
        // A block that is too large for the device is also solved by splitting.
        EngineError::Memory(crate::memory::AllocError::TooLarge { .. }) => FailureKind::OutOfMemory,
        EngineError::Memory(_) | EngineError::DeviceLost { .. } => FailureKind::DeviceLost,
        EngineError::DeviceHung { .. } => FailureKind::DeviceHung,
        EngineError::ShortRead { .. } => FailureKind::Transfer,
        EngineError::Unavailable { .. } => FailureKind::Unavailable,
        EngineError::Validation { .. } => FailureKind::InvalidPlan,
    }
}

/// What was already tried for this chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryAttempts {
    /// Evictions with a retry.
    pub trims: u32,
    /// Plain retries.
    pub retries: u32,
    /// Devices reopened.
    pub rebuilds: u32,
    /// The chunk can still be split.
    pub splittable: bool,
}

/// The next recovery step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum RecoveryStep {
    /// Evict idle buffers and retry.
    TrimAndRetry,
    /// Retry unchanged.
    Retry,
    /// Split into two halves, run one after the other.
    Split,
    /// Reopen the device after a backoff and replay the plan from its beginning.
    Rebuild {
        /// How long to wait first.
        backoff: Duration,
    },
    /// Fall back to the CPU: run the kernels' CPU references.
    #[serde(rename = "cpu")]
    CpuFallback,
    /// Return the error.
    GiveUp,
}

impl RecoveryStep {
    /// For messages and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            RecoveryStep::TrimAndRetry => "evicted idle buffers and retried",
            RecoveryStep::Retry => "retried",
            RecoveryStep::Split => "split the batch",
            RecoveryStep::Rebuild { .. } => "reopened the device",
            RecoveryStep::CpuFallback => "fell back to the CPU",
            RecoveryStep::GiveUp => "gave up",
        }
    }
}

/// Maximum number of times the device is reopened for one chunk.
pub const MAX_REBUILDS: u32 = 3;
/// Backoff before the first reopening; it doubles each time.
pub const INITIAL_BACKOFF: Duration = Duration::from_millis(10);

/// The next step, and the reason for it.
pub fn next_step(
    kind: FailureKind,
    tried: RecoveryAttempts,
    cpu_allowed: bool,
) -> (RecoveryStep, &'static str) {
    let last = if cpu_allowed {
        (RecoveryStep::CpuFallback, "the device cannot run it: the CPU can")
    } else {
        (RecoveryStep::GiveUp, "no further step is allowed")
    };
    match kind {
        FailureKind::OutOfMemory if tried.trims == 0 => {
            (RecoveryStep::TrimAndRetry, "idle buffers may occupy the memory")
        }
        FailureKind::OutOfMemory if tried.splittable => {
            (RecoveryStep::Split, "a smaller chunk needs less memory")
        }
        FailureKind::OutOfMemory => last,
        FailureKind::Transfer if tried.retries == 0 => {
            (RecoveryStep::Retry, "a transfer failure may be transient")
        }
        FailureKind::Transfer | FailureKind::DeviceLost | FailureKind::DeviceHung
            if tried.rebuilds < MAX_REBUILDS =>
        {
            let backoff = INITIAL_BACKOFF.saturating_mul(1 << tried.rebuilds);
            (RecoveryStep::Rebuild { backoff }, "a reopened device can replay the plan")
        }
        FailureKind::Transfer
        | FailureKind::DeviceLost
        | FailureKind::DeviceHung
        | FailureKind::Unavailable => last,
        FailureKind::InvalidPlan => (RecoveryStep::GiveUp, "an invalid plan would only fail again"),
    }
}

/// Circuit breaker: stops using a device that fails repeatedly, for a cool-down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreaker {
    failures: u32,
    open_until: Option<Duration>,
    pause: Duration,
}

/// Consecutive failed chunks that open the breaker.
pub const BREAKER_FAILURES: u32 = 3;
/// Default cool-down while it is open.
pub const BREAKER_PAUSE: Duration = Duration::from_secs(60);

impl Default for CircuitBreaker {
    fn default() -> Self {
        CircuitBreaker::new(BREAKER_PAUSE)
    }
}

impl CircuitBreaker {
    /// Closed; once open, it stays open for `pause`.
    pub fn new(pause: Duration) -> Self {
        CircuitBreaker { failures: 0, open_until: None, pause }
    }

    /// May the device be used at this time (since any fixed origin)?
    pub fn allows(&self, now: Duration) -> bool {
        self.open_until.is_none_or(|until| now >= until)
    }

    /// A chunk succeeded on the device: closes the breaker.
    pub fn succeeded(&mut self) {
        *self = CircuitBreaker::new(self.pause);
    }

    /// A chunk failed on the device. Chunks that the open breaker itself rejected say nothing about the device: they must
    /// not extend the cool-down, or steady load would keep the breaker open for ever.
    pub fn failed(&mut self, now: Duration) {
        if !self.allows(now) {
            return;
        }
        self.failures += 1;
        if self.failures >= BREAKER_FAILURES {
            self.open_until = Some(now.saturating_add(self.pause));
            // Half-open after the cool-down: one more failure opens it again at once.
            self.failures = BREAKER_FAILURES - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        memory::{AllocError, Tag},
        units::Bytes,
    };

    #[test]
    fn recovery_table() {
        let fresh = RecoveryAttempts { splittable: true, ..RecoveryAttempts::default() };
        let trimmed = RecoveryAttempts { trims: 1, ..fresh };
        let check =
            |kind, tried, want| assert_eq!(next_step(kind, tried, true).0, want, "{kind:?} {tried:?}");
        check(FailureKind::OutOfMemory, fresh, RecoveryStep::TrimAndRetry);
        check(FailureKind::OutOfMemory, trimmed, RecoveryStep::Split);
        check(
            FailureKind::OutOfMemory,
            RecoveryAttempts { splittable: false, ..trimmed },
            RecoveryStep::CpuFallback,
        );
        check(FailureKind::DeviceLost, fresh, RecoveryStep::Rebuild { backoff: INITIAL_BACKOFF });
        check(
            FailureKind::DeviceHung,
            RecoveryAttempts { rebuilds: 2, ..fresh },
            RecoveryStep::Rebuild { backoff: INITIAL_BACKOFF * 4 },
        );
        check(
            FailureKind::DeviceLost,
            RecoveryAttempts { rebuilds: MAX_REBUILDS, ..fresh },
            RecoveryStep::CpuFallback,
        );
        check(FailureKind::Transfer, fresh, RecoveryStep::Retry);
        check(
            FailureKind::Transfer,
            RecoveryAttempts { retries: 1, ..fresh },
            RecoveryStep::Rebuild { backoff: INITIAL_BACKOFF },
        );
        check(FailureKind::InvalidPlan, fresh, RecoveryStep::GiveUp);
        assert_eq!(next_step(FailureKind::Unavailable, fresh, false).0, RecoveryStep::GiveUp);
    }

    #[test]
    fn errors_are_classified() {
        let short = AllocError::OutOfMemory { asked: Bytes(1), tag: Tag("x") };
        assert_eq!(classify(&short.into()), FailureKind::OutOfMemory);
        let broken = AllocError::Device { reason: String::new() };
        assert_eq!(classify(&broken.into()), FailureKind::DeviceLost);
        assert_eq!(classify(&EngineError::Validation { reason: String::new() }), FailureKind::InvalidPlan);
    }

    #[test]
    fn breaker_opens_after_three_failures_and_allows_after_the_cool_down() {
        let mut breaker = CircuitBreaker::default();
        let now = Duration::from_secs(100);
        breaker.failed(now);
        breaker.failed(now);
        assert!(breaker.allows(now));
        breaker.failed(now);
        assert!(!breaker.allows(now) && breaker.allows(now + BREAKER_PAUSE));
        breaker.failed(now + BREAKER_PAUSE / 2);
        assert!(breaker.allows(now + BREAKER_PAUSE), "rejected work does not extend the cool-down");
        breaker.failed(now + BREAKER_PAUSE);
        assert!(!breaker.allows(now + BREAKER_PAUSE), "half-open: one failure opens it again");
        breaker.succeeded();
        assert!(breaker.allows(now));
    }

    #[test]
    fn configured_cool_down_survives_a_success() {
        let pause = Duration::from_millis(20);
        let mut breaker = CircuitBreaker::new(pause);
        for _ in 0..2 {
            (0..BREAKER_FAILURES).for_each(|_| breaker.failed(Duration::ZERO));
            assert!(!breaker.allows(pause - Duration::from_nanos(1)) && breaker.allows(pause));
            breaker.succeeded();
        }
        let mut endless = CircuitBreaker::new(Duration::MAX);
        (0..BREAKER_FAILURES).for_each(|_| endless.failed(Duration::from_secs(1)));
        assert!(!endless.allows(Duration::from_secs(1 << 40)), "no overflow");
    }
}
