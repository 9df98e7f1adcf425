//! What is loaded, since when, and at what cost? Parts that are made at their first use, and the list of them.
//!
//! Making a [`Lazy`] costs nothing; its first [`Lazy::get`] runs its maker on the caller's thread while others that
//! ask for the same part wait for it. No lock of the registry is held meanwhile.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody needed it yet.
    Idle,
    /// Being made.
    Loading,
    /// There.
    Loaded,
    /// Could not be made.
    Failed,
}

/// A part as `gpuforge status` lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentStatus {
    /// Name.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Parts it needs.
    pub depends_on: &'static [&'static str],
    /// Idle, loading, loaded, failed.
    pub state: State,
    /// Is it there?
    pub loaded: bool,
    /// How long making it took, once it was made.
    pub load_ms: Option<f64>,
    /// How often it was asked for.
    pub access_count: u64,
}

/// One event of a part's life, for progress displays.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Which part.
    pub component: &'static str,
    /// It begins, or it is done after this long.
    pub finished: Option<Duration>,
    /// It failed.
    pub failed: bool,
}

/// Receives progress on the thread that loads; must not block.
pub type Listener = Arc<dyn Fn(&Progress) + Send + Sync>;

#[derive(Debug)]
struct Record {
    name: &'static str,
    what: &'static str,
    depends_on: &'static [&'static str],
    state: AtomicU8,
    load_ns: AtomicU64,
    accesses: AtomicU64,
    /// Start and end of loading since the registry was made, for the overlap.
    span: Mutex<Option<(Duration, Duration)>>,
}

/// All parts of one program.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    began: Instant,
    records: Mutex<Vec<Arc<Record>>>,
    listeners: Mutex<Vec<Listener>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

impl Registry {
    /// An empty list.
    pub fn new() -> Self {
        let inner = Inner { began: Instant::now(), records: Mutex::default(), listeners: Mutex::default() };
        Registry { inner: Arc::new(inner) }
    }

    /// A part that `make` makes when it is first needed.
    pub fn lazy<T>(
        &self,
        name: &'static str,
        what: &'static str,
        depends_on: &'static [&'static str],
        make: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Lazy<T> {
        let record = Arc::new(Record {
            name,
            what,
            depends_on,
            state: AtomicU8::new(0),
            load_ns: AtomicU64::new(0),
            accesses: AtomicU64::new(0),
            span: Mutex::default(),
        });
        lock(&self.inner.records).push(record.clone());
        Lazy { cell: OnceLock::new(), make: Box::new(make), record, registry: self.clone() }
    }

    /// Tells progress to `listener` from now on.
    pub fn listen(&self, listener: Listener) {
        lock(&self.inner.listeners).push(listener);
    }

    /// Every part.
    pub fn status(&self) -> Vec<ComponentStatus> {
        lock(&self.inner.records).iter().map(|r| r.status()).collect()
    }

    /// What starting has cost so far.
    pub fn init_stats(&self) -> InitStats {
        let records = lock(&self.inner.records).clone();
        let spans: Vec<(&'static str, Duration, Duration)> =
            records.iter().filter_map(|r| lock(&r.span).map(|(from, to)| (r.name, from, to))).collect();
        init_stats(&spans)
    }

    fn tell(&self, progress: &Progress) {
        // Listeners are called without the lock: one may ask for the status.
        let listeners = lock(&self.inner.listeners).clone();
        for listener in listeners {
            listener(progress);
        }
    }
}

/// What starting cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InitStats {
    /// From the beginning of the first load to the end of the last, without the gaps in which nothing loaded.
    pub total_ms: f64,
    /// Per part.
    pub phases: Vec<Phase>,
    /// Time of all parts ÷ total: 1 is one after the other, 2 is two at a time.
    pub overlap: Option<f64>,
}

/// One part's share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// Which part.
    pub name: &'static str,
    /// How long.
    pub ms: f64,
}

/// Union and sum of time spans; pure.
fn init_stats(spans: &[(&'static str, Duration, Duration)]) -> InitStats {
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|(_, from, _)| *from);
    let (mut union, mut reached) = (Duration::ZERO, Duration::ZERO);
    let mut sum = Duration::ZERO;
    for (_, from, to) in &sorted {
        sum += to.saturating_sub(*from);
        union += to.saturating_sub((*from).max(reached));
        reached = reached.max(*to);
    }
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let phases =
        sorted.iter().map(|(name, from, to)| Phase { name, ms: ms(to.saturating_sub(*from)) }).collect();
    let overlap = (!union.is_zero()).then(|| sum.as_secs_f64() / union.as_secs_f64());
    InitStats { total_ms: ms(union), phases, overlap }
}

impl Record {
    fn status(&self) -> ComponentStatus {
        let state = match self.state.load(Ordering::Acquire) {
            0 => State::Idle,
            1 => State::Loading,
            2 => State::Loaded,
            _ => State::Failed,
        };
        let made = matches!(state, State::Loaded | State::Failed);
        ComponentStatus {
            name: self.name,
            what: self.what,
            depends_on: self.depends_on,
            state,
            loaded: state == State::Loaded,
            load_ms: made.then(|| self.load_ns.load(Ordering::Relaxed) as f64 * 1e-6),
            access_count: self.accesses.load(Ordering::Relaxed),
        }
    }
}

/// A part that is made at its first use.
pub struct Lazy<T> {
    cell: OnceLock<Result<T, String>>,
    make: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    record: Arc<Record>,
    registry: Registry,
}

impl<T> Lazy<T> {
    /// The part, made now if it is not there yet; the same error every time when it cannot be made.
    pub fn get(&self) -> Result<&T, String> {
        self.record.accesses.fetch_add(1, Ordering::Relaxed);
        self.load()
    }

    /// As [`Lazy::get`], but does not count as a use: for warming up.
    pub fn load(&self) -> Result<&T, String> {
        self.cell.get_or_init(|| self.make_now()).as_ref().map_err(Clone::clone)
    }

    /// The part, if it is there already.
    pub fn peek(&self) -> Option<&T> {
        self.cell.get().and_then(|r| r.as_ref().ok())
    }

    fn make_now(&self) -> Result<T, String> {
        let record = &self.record;
        record.state.store(1, Ordering::Release);
        self.registry.tell(&Progress { component: record.name, finished: None, failed: false });
        let began = self.registry.inner.began.elapsed();
        let result = (self.make)();
        let ended = self.registry.inner.began.elapsed();
        let took = ended.saturating_sub(began);
        record.load_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        *lock(&record.span) = Some((began, ended));
        record.state.store(if result.is_ok() { 2 } else { 3 }, Ordering::Release);
        self.registry.tell(&Progress {
            component: record.name,
            finished: Some(took),
            failed: result.is_err(),
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_part_is_made_once_and_only_when_needed() {
        let registry = Registry::new();
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let part = registry.lazy("part", "a part", &[], move || Ok(count.fetch_add(1, Ordering::SeqCst)));
        assert_eq!((registry.status()[0].state, registry.status()[0].load_ms), (State::Idle, None));
        assert!(part.peek().is_none());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(part.get(), Ok(&0)));
            }
        });
        let status = &registry.status()[0];
        assert_eq!((made.load(Ordering::SeqCst), status.access_count, status.loaded), (1, 8, true));
    }

    #[test]
    fn a_failure_is_kept_and_told() {
        let registry = Registry::new();
        let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let (sink, asking) = (seen.clone(), registry.clone());
        registry.listen(Arc::new(move |p| {
            let _ = asking.status();
            lock(&sink).push(p.clone());
        }));
        let part = registry.lazy::<()>("bad", "fails", &["other"], || Err("no".to_owned()));
        assert_eq!((part.get(), part.get()), (Err("no".to_owned()), Err("no".to_owned())));
        assert_eq!(registry.status()[0].state, State::Failed);
        let seen = lock(&seen);
        assert!(seen.len() == 2 && seen[0].finished.is_none() && seen[1].failed, "{seen:?}");
    }

    #[test]
    fn overlap_is_the_sum_over_the_union() {
        let at = Duration::from_millis;
        let stats = init_stats(&[("a", at(0), at(10)), ("b", at(0), at(10)), ("c", at(50), at(60))]);
        assert!(
            (stats.total_ms - 20.0).abs() < 1e-9 && (stats.overlap.unwrap() - 1.5).abs() < 1e-9,
            "{stats:?}"
        );
        assert_eq!(init_stats(&[]).overlap, None);
    }
}
