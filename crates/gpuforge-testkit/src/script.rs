//! What goes wrong, and when? Faults as data: at the n-th event of a kind, or at random from a seed.

use std::time::Duration;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The call is refused for want of memory; the device is well.
    OutOfMemory,
    /// The device is gone: really destroyed where the engine can be, else every later call says so.
    Loss,
    /// The device is gone, but every call reports success and reads bring zeros; its health tells only after a wait.
    SilentLoss,
    /// The call does not return before its deadline, and no later one is trusted.
    Hang,
    /// The last download brings half its bytes.
    ShortRead,
    /// The call takes longer than usual, and is right.
    Slow,
}

/// Between which calls it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
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

/// Every fault with the moments at which it means something.
const KINDS: [(Fault, &[Moment]); 6] = [
    (Fault::OutOfMemory, &[Moment::Create, Moment::Submit, Moment::Wait]),
    (Fault::Loss, &Moment::ALL),
    (Fault::SilentLoss, &Moment::ALL),
    (Fault::Hang, &[Moment::Create, Moment::Submit, Moment::Wait]),
    (Fault::ShortRead, &[Moment::Wait]),
    (Fault::Slow, &Moment::ALL),
];

impl Moment {
    /// Every moment.
    pub const ALL: [Moment; 5] =
        [Moment::Create, Moment::Submit, Moment::Submitted, Moment::Wait, Moment::Waited];
}

/// Every fault at every moment at which it means something.
pub fn kinds() -> impl Iterator<Item = (Fault, Moment)> {
    KINDS.iter().flat_map(|(fault, moments)| moments.iter().map(|moment| (*fault, *moment)))
}

/// One fault at one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// What.
    pub fault: Fault,
    /// At which kind of event.
    pub moment: Moment,
    /// At which of them, counted from 0 over the life of the opener.
    pub nth: u64,
}

/// Faults at random, the same for the same seed and the same order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random {
    /// Where the numbers come from.
    pub seed: u64,
    /// One submission or wait in so many fails; 0 never.
    pub one_in: u64,
    /// The same for creations, of which a plan has many.
    pub one_creation_in: u64,
    /// Only these; all when empty.
    pub only: &'static [Fault],
}

/// When faults happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// At these events, once.
    pub once: Vec<Injection>,
    /// And at random ones.
    pub random: Option<Random>,
    /// The most that a hang keeps its caller, below the deadline: a test need not wait as long as a user would.
    pub patience: Duration,
    /// How long a slow call sleeps.
    pub slow: Duration,
}

impl Default for Script {
    fn default() -> Self {
        Script { once: Vec::new(), random: None, patience: Duration::MAX, slow: Duration::from_millis(20) }
    }
}

impl Script {
    /// One fault at one event.
    pub fn once(fault: Fault, moment: Moment, nth: u64) -> Self {
        Script { once: vec![Injection { fault, moment, nth }], ..Script::default() }
    }

    /// One event in `one_in` fails, in any way it can.
    pub fn random(seed: u64, one_in: u64) -> Self {
        Script {
            random: Some(Random { seed, one_in, one_creation_in: one_in, only: &[] }),
            ..Script::default()
        }
    }

    /// What happens at this event; pure.
    pub fn at(&self, moment: Moment, nth: u64) -> Option<Fault> {
        let once = self.once.iter().find(|i| i.moment == moment && i.nth == nth).map(|i| i.fault);
        once.or_else(|| self.random.and_then(|random| random.at(moment, nth)))
    }
}

impl Random {
    fn at(&self, moment: Moment, nth: u64) -> Option<Fault> {
        let bits = scramble(self.seed ^ scramble(nth.wrapping_mul(8) + moment as u64));
        let one_in = if moment == Moment::Create { self.one_creation_in } else { self.one_in };
        if one_in == 0 || !bits.is_multiple_of(one_in) {
            return None;
        }
        let possible: Vec<Fault> = kinds()
            .filter(|(fault, m)| *m == moment && (self.only.is_empty() || self.only.contains(fault)))
            .map(|(fault, _)| fault)
            .collect();
        let pick = (bits / one_in).checked_rem(possible.len() as u64)?;
        possible.get(usize::try_from(pick).ok()?).copied()
    }
}

/// Well-spread bits of a counter (the finaliser of `SplitMix64`).
pub fn scramble(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_a_pure_function_of_the_event() {
        let script = Script::once(Fault::Loss, Moment::Wait, 3);
        assert_eq!(script.at(Moment::Wait, 3), Some(Fault::Loss));
        assert_eq!((script.at(Moment::Wait, 2), script.at(Moment::Submit, 3)), (None, None));
        let random =
            |seed| (0..2000).map(|n| Script::random(seed, 10).at(Moment::Wait, n)).collect::<Vec<_>>();
        assert_eq!(random(1), random(1), "the same seed, the same faults");
        assert_ne!(random(1), random(2));
        let hits = random(1).iter().flatten().count();
        assert!((140..=260).contains(&hits), "one in ten of 2000: {hits}");
        assert_eq!(Script::random(1, 0).at(Moment::Wait, 0), None);
    }

    #[test]
    fn random_faults_are_those_that_fit_the_moment() {
        let seen = |only, moment| {
            let random = Random { seed: 7, one_in: 1, one_creation_in: 1, only };
            let found = (0..500).filter_map(|n| random.at(moment, n));
            found.fold(Vec::new(), |mut all: Vec<Fault>, f| {
                if !all.contains(&f) {
                    all.push(f);
                }
                all
            })
        };
        assert_eq!(seen(&[], Moment::Wait).len(), 6);
        assert_eq!(seen(&[], Moment::Waited).len(), 3);
        assert_eq!(seen(&[Fault::Loss], Moment::Create), [Fault::Loss]);
        assert_eq!(seen(&[Fault::ShortRead], Moment::Create), []);
    }
}
