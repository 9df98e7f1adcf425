//! Fault script: which fault is injected at which event (the n-th of a kind, or at random from a seed).

use std::time::Duration;

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// OOM; the device stays healthy.
    OutOfMemory,
    /// Device lost: really destroyed if the engine supports it, else every later call fails.
    Loss,
    /// Device lost, but every call reports success and reads return zeros; health shows it only after a wait.
    SilentLoss,
    /// The call misses its deadline, and so does every later one.
    Hang,
    /// The last download returns half its bytes.
    ShortRead,
    /// The call is slow, but succeeds.
    Slow,
}

/// The call before or after which a fault is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InjectionPoint {
    /// Before the n-th buffer is created.
    Create,
    /// Before the n-th job is submitted.
    Submit,
    /// After the n-th job was submitted.
    Submitted,
    /// Before the n-th wait.
    Wait,
    /// After the n-th wait: between two plans.
    Waited,
}

/// Every fault with the injection points at which it is meaningful.
const FAULT_POINTS: [(Fault, &[InjectionPoint]); 6] = [
    (Fault::OutOfMemory, &[InjectionPoint::Create, InjectionPoint::Submit, InjectionPoint::Wait]),
    (Fault::Loss, &InjectionPoint::ALL),
    (Fault::SilentLoss, &InjectionPoint::ALL),
    (Fault::Hang, &[InjectionPoint::Create, InjectionPoint::Submit, InjectionPoint::Wait]),
    (Fault::ShortRead, &[InjectionPoint::Wait]),
    (Fault::Slow, &InjectionPoint::ALL),
];

impl InjectionPoint {
    /// All injection points.
    pub const ALL: [InjectionPoint; 5] = [
        InjectionPoint::Create,
        InjectionPoint::Submit,
        InjectionPoint::Submitted,
        InjectionPoint::Wait,
        InjectionPoint::Waited,
    ];
}

/// All meaningful pairs of fault and injection point.
pub fn fault_points() -> impl Iterator<Item = (Fault, InjectionPoint)> {
    FAULT_POINTS.iter().flat_map(|(fault, moments)| moments.iter().map(|point| (*fault, *point)))
}

/// One fault at one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// The fault.
    pub fault: Fault,
    /// The injection point.
    pub point: InjectionPoint,
    /// At which event of this kind, counted from 0 over the life of the opener.
    pub nth: u64,
}

/// Random faults, deterministic for the same seed and the same order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomFaults {
    /// Seed.
    pub seed: u64,
    /// One submission or wait in this many fails; 0 never.
    pub one_in: u64,
    /// The same for buffer creations, of which a plan has many.
    pub one_creation_in: u64,
    /// Only these; all when empty.
    pub only: &'static [Fault],
}

/// Which faults are injected when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultScript {
    /// At these events, once.
    pub once: Vec<Injection>,
    /// At random events.
    pub random: Option<RandomFaults>,
    /// Maximum time a hang blocks its caller, below the deadline: a test need not wait as long as a user would.
    pub patience: Duration,
    /// How long a slow call sleeps.
    pub slow: Duration,
}

impl Default for FaultScript {
    fn default() -> Self {
        FaultScript {
            once: Vec::new(),
            random: None,
            patience: Duration::MAX,
            slow: Duration::from_millis(20),
        }
    }
}

impl FaultScript {
    /// One fault at one event.
    pub fn once(fault: Fault, point: InjectionPoint, nth: u64) -> Self {
        FaultScript { once: vec![Injection { fault, point, nth }], ..FaultScript::default() }
    }

    /// One event in `one_in` fails, with any meaningful fault.
    pub fn random(seed: u64, one_in: u64) -> Self {
        FaultScript {
            random: Some(RandomFaults { seed, one_in, one_creation_in: one_in, only: &[] }),
            ..FaultScript::default()
        }
    }

    /// The fault at this event; pure.
    pub fn at(&self, point: InjectionPoint, nth: u64) -> Option<Fault> {
        let once = self.once.iter().find(|i| i.point == point && i.nth == nth).map(|i| i.fault);
        once.or_else(|| self.random.and_then(|random| random.at(point, nth)))
    }
}

impl RandomFaults {
    fn at(&self, point: InjectionPoint, nth: u64) -> Option<Fault> {
        let bits = splitmix64(self.seed ^ splitmix64(nth.wrapping_mul(8) + point as u64));
        let one_in = if point == InjectionPoint::Create { self.one_creation_in } else { self.one_in };
        if one_in == 0 || !bits.is_multiple_of(one_in) {
            return None;
        }
        let possible: Vec<Fault> = fault_points()
            .filter(|(fault, m)| *m == point && (self.only.is_empty() || self.only.contains(fault)))
            .map(|(fault, _)| fault)
            .collect();
        let pick = (bits / one_in).checked_rem(possible.len() as u64)?;
        possible.get(usize::try_from(pick).ok()?).copied()
    }
}

/// SplitMix64: hashes a counter to uniformly distributed bits.
pub fn splitmix64(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_a_pure_function_of_the_event() {
        let script = FaultScript::once(Fault::Loss, InjectionPoint::Wait, 3);
        assert_eq!(script.at(InjectionPoint::Wait, 3), Some(Fault::Loss));
        assert_eq!((script.at(InjectionPoint::Wait, 2), script.at(InjectionPoint::Submit, 3)), (None, None));
        let random = |seed| {
            (0..2000).map(|n| FaultScript::random(seed, 10).at(InjectionPoint::Wait, n)).collect::<Vec<_>>()
        };
        assert_eq!(random(1), random(1), "the same seed, the same faults");
        assert_ne!(random(1), random(2));
        let hits = random(1).iter().flatten().count();
        assert!((140..=260).contains(&hits), "one in ten of 2000: {hits}");
        assert_eq!(FaultScript::random(1, 0).at(InjectionPoint::Wait, 0), None);
    }

    #[test]
    fn random_faults_are_meaningful_at_their_point() {
        let seen = |only, point| {
            let random = RandomFaults { seed: 7, one_in: 1, one_creation_in: 1, only };
            let found = (0..500).filter_map(|n| random.at(point, n));
            found.fold(Vec::new(), |mut all: Vec<Fault>, f| {
                if !all.contains(&f) {
                    all.push(f);
                }
                all
            })
        };
        assert_eq!(seen(&[], InjectionPoint::Wait).len(), 6);
        assert_eq!(seen(&[], InjectionPoint::Waited).len(), 3);
        assert_eq!(seen(&[Fault::Loss], InjectionPoint::Create), [Fault::Loss]);
        assert_eq!(seen(&[Fault::ShortRead], InjectionPoint::Create), []);
    }
}
