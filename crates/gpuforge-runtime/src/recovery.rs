//! What is the next step after a failure? A pure table: what happened and what was tried, to a step with its reason.

use std::time::Duration;

use serde::Serialize;

use crate::engine::EngineError;

/// Failures by what can be done about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No room: trim, then less at a time.
    OutOfMemory,
    /// The device is gone: another one, everything again.
    Lost,
    /// The device does not answer: as lost, and nothing of it may be touched.
    Hung,
    /// A transfer went wrong; the device says it is well.
    Transfer,
    /// The device cannot be opened.
    Unavailable,
    /// A mistake in the plan or a kernel: never repeated.
    Bug,
}

impl Kind {
    /// In words, for people and traces.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::OutOfMemory => "out of memory",
            Kind::Lost => "device lost",
            Kind::Hung => "device hung",
            Kind::Transfer => "transfer failed",
            Kind::Unavailable => "device unavailable",
            Kind::Bug => "mistake in the plan",
        }
    }
}

/// Which kind an error is.
pub fn classify(error: &EngineError) -> Kind {
    match error {
        EngineError::Memory(e) if e.is_shortage() => Kind::OutOfMemory,
        // A block that can never be had is also answered by less at a time.
        EngineError::Memory(crate::memory::AllocError::TooLarge { .. }) => Kind::OutOfMemory,
        EngineError::Memory(_) | EngineError::Lost { .. } => Kind::Lost,
        EngineError::Hung { .. } => Kind::Hung,
        EngineError::ShortRead { .. } => Kind::Transfer,
        EngineError::Unavailable { .. } => Kind::Unavailable,
        EngineError::Validation { .. } => Kind::Bug,
    }
}

/// What was tried already for this piece of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// Trim and retry.
    pub trims: u32,
    /// Plain repetitions.
    pub retries: u32,
    /// Devices opened anew.
    pub rebuilds: u32,
    /// The work can still be split.
    pub splittable: bool,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum Step {
    /// Let go of idle memory and try once more.
    TrimAndRetry,
    /// The same again.
    Retry,
    /// Two halves, one after the other.
    Split,
    /// Open the device anew after a pause, and replay from the beginning.
    Rebuild {
        /// How long to wait first.
        backoff: Duration,
    },
    /// Run the kernels' twins on the processor.
    Cpu,
    /// Report it.
    GiveUp,
}

impl Step {
    /// In words, for people and traces.
    pub const fn word(self) -> &'static str {
        match self {
            Step::TrimAndRetry => "trimmed and repeated",
            Step::Retry => "repeated",
            Step::Split => "split",
            Step::Rebuild { .. } => "device opened anew",
            Step::Cpu => "moved to the processor",
            Step::GiveUp => "given up",
        }
    }
}

/// The most devices that are opened for one piece of work.
pub const MOST_REBUILDS: u32 = 3;
/// Pause before the first rebuild; it doubles.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// What to do next, and why.
pub fn next(kind: Kind, tried: Tried, cpu_allowed: bool) -> (Step, &'static str) {
    let last = if cpu_allowed {
        (Step::Cpu, "the device cannot do it: the processor can")
    } else {
        (Step::GiveUp, "no other way is allowed")
    };
    match kind {
        Kind::OutOfMemory if tried.trims == 0 => (Step::TrimAndRetry, "idle buffers may be in the way"),
        Kind::OutOfMemory if tried.splittable => (Step::Split, "less at a time needs less memory"),
        Kind::OutOfMemory => last,
        Kind::Transfer if tried.retries == 0 => (Step::Retry, "a transfer may fail once"),
        Kind::Transfer | Kind::Lost | Kind::Hung if tried.rebuilds < MOST_REBUILDS => {
            let backoff = FIRST_BACKOFF.saturating_mul(1 << tried.rebuilds);
            (Step::Rebuild { backoff }, "a fresh device can replay the plan")
        }
        Kind::Transfer | Kind::Lost | Kind::Hung | Kind::Unavailable => last,
        Kind::Bug => (Step::GiveUp, "a mistake in the plan would only repeat"),
    }
}

/// Stops asking a device that keeps failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    open_until: Option<Duration>,
    pause: Duration,
}

/// Failed pieces of work in a row that open the breaker.
pub const BREAKER_FAILURES: u32 = 3;
/// How long it stays open, unless the runner is told otherwise.
pub const BREAKER_PAUSE: Duration = Duration::from_secs(60);

impl Default for Breaker {
    fn default() -> Self {
        Breaker::new(BREAKER_PAUSE)
    }
}

impl Breaker {
    /// Closed; once open, it stays so for `pause`.
    pub fn new(pause: Duration) -> Self {
        Breaker { failures: 0, open_until: None, pause }
    }

    /// May the device be asked at this time (since any fixed moment)?
    pub fn allows(&self, now: Duration) -> bool {
        self.open_until.is_none_or(|until| now >= until)
    }

    /// The device did its work.
    pub fn succeeded(&mut self) {
        *self = Breaker::new(self.pause);
    }

    /// A piece of work had to go elsewhere. Work that the open breaker itself sent away says nothing about the device:
    /// it must not make the pause longer, or steady work would keep the breaker open for ever.
    pub fn failed(&mut self, now: Duration) {
        if !self.allows(now) {
            return;
        }
        self.failures += 1;
        if self.failures >= BREAKER_FAILURES {
            self.open_until = Some(now.saturating_add(self.pause));
            // One more failure after the pause opens it again at once.
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
    fn the_table() {
        let fresh = Tried { splittable: true, ..Tried::default() };
        let trimmed = Tried { trims: 1, ..fresh };
        let check = |kind, tried, want| assert_eq!(next(kind, tried, true).0, want, "{kind:?} {tried:?}");
        check(Kind::OutOfMemory, fresh, Step::TrimAndRetry);
        check(Kind::OutOfMemory, trimmed, Step::Split);
        check(Kind::OutOfMemory, Tried { splittable: false, ..trimmed }, Step::Cpu);
        check(Kind::Lost, fresh, Step::Rebuild { backoff: FIRST_BACKOFF });
        check(Kind::Hung, Tried { rebuilds: 2, ..fresh }, Step::Rebuild { backoff: FIRST_BACKOFF * 4 });
        check(Kind::Lost, Tried { rebuilds: MOST_REBUILDS, ..fresh }, Step::Cpu);
        check(Kind::Transfer, fresh, Step::Retry);
        check(Kind::Transfer, Tried { retries: 1, ..fresh }, Step::Rebuild { backoff: FIRST_BACKOFF });
        check(Kind::Bug, fresh, Step::GiveUp);
        assert_eq!(next(Kind::Unavailable, fresh, false).0, Step::GiveUp);
    }

    #[test]
    fn errors_are_classified() {
        let short = AllocError::OutOfMemory { asked: Bytes(1), tag: Tag("x") };
        assert_eq!(classify(&short.into()), Kind::OutOfMemory);
        let broken = AllocError::Device { reason: String::new() };
        assert_eq!(classify(&broken.into()), Kind::Lost);
        assert_eq!(classify(&EngineError::Validation { reason: String::new() }), Kind::Bug);
    }

    #[test]
    fn the_breaker_opens_after_three_and_closes_after_a_pause() {
        let mut breaker = Breaker::default();
        let now = Duration::from_secs(100);
        breaker.failed(now);
        breaker.failed(now);
        assert!(breaker.allows(now));
        breaker.failed(now);
        assert!(!breaker.allows(now) && breaker.allows(now + BREAKER_PAUSE));
        breaker.failed(now + BREAKER_PAUSE / 2);
        assert!(
            breaker.allows(now + BREAKER_PAUSE),
            "work that was sent away does not make the pause longer"
        );
        breaker.failed(now + BREAKER_PAUSE);
        assert!(!breaker.allows(now + BREAKER_PAUSE), "still bad: open again at once");
        breaker.succeeded();
        assert!(breaker.allows(now));
    }

    #[test]
    fn a_pause_of_ones_own_outlives_a_success() {
        let pause = Duration::from_millis(20);
        let mut breaker = Breaker::new(pause);
        for _ in 0..2 {
            (0..BREAKER_FAILURES).for_each(|_| breaker.failed(Duration::ZERO));
            assert!(!breaker.allows(pause - Duration::from_nanos(1)) && breaker.allows(pause));
            breaker.succeeded();
        }
        let mut endless = Breaker::new(Duration::MAX);
        (0..BREAKER_FAILURES).for_each(|_| endless.failed(Duration::from_secs(1)));
        assert!(!endless.allows(Duration::from_secs(1 << 40)), "no overflow");
    }
}
