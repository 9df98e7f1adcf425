//! Lazy initialisation: components that are created at first use, and a registry of their state and startup cost.
//!
//! Creating a [`Lazy`] costs nothing; the first [`Lazy::get`] runs its constructor on the caller's thread while others
//! that need the same component block on it. No lock of the registry is held meanwhile.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;

/// Initialisation state of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadState {
    /// Not used yet.
    Idle,
    /// Being created.
    Loading,
    /// Ready.
    Loaded,
    /// Initialisation failed.
    Failed,
}

/// A component as `gpuforge status` lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentStatus {
    /// Name.
    pub name: &'static str,
    /// Description.
    pub what: &'static str,
    /// Components it depends on.
    pub depends_on: &'static [&'static str],
    /// Idle, loading, loaded, failed.
    pub state: LoadState,
    /// Is it ready?
    pub loaded: bool,
    /// Initialisation time, once it was created.
    pub load_ms: Option<f64>,
    /// Number of accesses.
    pub access_count: u64,
}

/// Start or end of an initialisation, for progress displays.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadProgress {
    /// The component.
    pub component: &'static str,
    /// `None` at the start; the initialisation time at the end.
    pub finished: Option<Duration>,
    /// Did it fail?
    pub failed: bool,
}

/// Called with progress on the initialising thread; must not block.
pub type ProgressListener = Arc<dyn Fn(&LoadProgress) + Send + Sync>;

#[derive(Debug)]
struct Component {
    name: &'static str,
    what: &'static str,
    depends_on: &'static [&'static str],
    state: AtomicU8,
    load_ns: AtomicU64,
    accesses: AtomicU64,
    /// Start and end of loading since the registry was created, for the overlap.
    span: Mutex<Option<(Duration, Duration)>>,
}

/// All components of one program.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    began: Instant,
    components: Mutex<Vec<Arc<Component>>>,
    listeners: Mutex<Vec<ProgressListener>>,
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
    /// An empty registry.
    pub fn new() -> Self {
        let inner =
            Inner { began: Instant::now(), components: Mutex::default(), listeners: Mutex::default() };
        Registry { inner: Arc::new(inner) }
    }

    /// Registers a component that `make` creates at first use.
    pub fn lazy<T>(
        &self,
        name: &'static str,
        what: &'static str,
        depends_on: &'static [&'static str],
        make: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Lazy<T> {
        let component = Arc::new(Component {
            name,
            what,
            depends_on,
            state: AtomicU8::new(0),
            load_ns: AtomicU64::new(0),
            accesses: AtomicU64::new(0),
            span: Mutex::default(),
        });
        lock(&self.inner.components).push(component.clone());
        Lazy { cell: OnceLock::new(), make: Box::new(make), component, registry: self.clone() }
    }

    /// Calls `listener` with progress from now on.
    pub fn listen(&self, listener: ProgressListener) {
        lock(&self.inner.listeners).push(listener);
    }

    /// Status of every component.
    pub fn status(&self) -> Vec<ComponentStatus> {
        lock(&self.inner.components).iter().map(|r| r.status()).collect()
    }

    /// Startup cost so far.
    pub fn startup_stats(&self) -> StartupStats {
        let components = lock(&self.inner.components).clone();
        let spans: Vec<(&'static str, Duration, Duration)> =
            components.iter().filter_map(|r| lock(&r.span).map(|(from, to)| (r.name, from, to))).collect();
        startup_stats(&spans)
    }

    fn notify(&self, progress: &LoadProgress) {
        // Listeners are called without the lock: one may read the status.
        let listeners = lock(&self.inner.listeners).clone();
        for listener in listeners {
            listener(progress);
        }
    }
}

/// Startup cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StartupStats {
    /// Union of all load intervals: gaps in which nothing was loading do not count.
    pub total_ms: f64,
    /// Per component.
    pub phases: Vec<StartupPhase>,
    /// Sum of all load times ÷ total: 1 is sequential, 2 is two at a time.
    pub overlap: Option<f64>,
}

/// Load time of one component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StartupPhase {
    /// The component.
    pub name: &'static str,
    /// Milliseconds.
    pub ms: f64,
}

/// Union and sum of time intervals; pure.
fn startup_stats(spans: &[(&'static str, Duration, Duration)]) -> StartupStats {
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
    let phases = sorted
        .iter()
        .map(|(name, from, to)| StartupPhase { name, ms: ms(to.saturating_sub(*from)) })
        .collect();
    let overlap = (!union.is_zero()).then(|| sum.as_secs_f64() / union.as_secs_f64());
    StartupStats { total_ms: ms(union), phases, overlap }
}

impl Component {
    fn status(&self) -> ComponentStatus {
        let state = match self.state.load(Ordering::Acquire) {
            0 => LoadState::Idle,
            1 => LoadState::Loading,
            2 => LoadState::Loaded,
            _ => LoadState::Failed,
        };
        let made = matches!(state, LoadState::Loaded | LoadState::Failed);
        ComponentStatus {
            name: self.name,
            what: self.what,
            depends_on: self.depends_on,
            state,
            loaded: state == LoadState::Loaded,
            load_ms: made.then(|| self.load_ns.load(Ordering::Relaxed) as f64 * 1e-6),
            access_count: self.accesses.load(Ordering::Relaxed),
        }
    }
}

/// A component that is created at first use.
pub struct Lazy<T> {
    cell: OnceLock<Result<T, String>>,
    make: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    component: Arc<Component>,
    registry: Registry,
}

impl<T> Lazy<T> {
    /// The component, created now if necessary; the same error every time when its initialisation failed.
    pub fn get(&self) -> Result<&T, String> {
        self.component.accesses.fetch_add(1, Ordering::Relaxed);
        self.load()
    }

    /// As [`Lazy::get`], but does not count as an access: for warm-up.
    pub fn load(&self) -> Result<&T, String> {
        self.cell.get_or_init(|| self.make_now()).as_ref().map_err(Clone::clone)
    }

    /// The component, if it is ready.
    pub fn peek(&self) -> Option<&T> {
        self.cell.get().and_then(|r| r.as_ref().ok())
    }

    fn make_now(&self) -> Result<T, String> {
        let component = &self.component;
        component.state.store(1, Ordering::Release);
        self.registry.notify(&LoadProgress { component: component.name, finished: None, failed: false });
        let began = self.registry.inner.began.elapsed();
        let result = (self.make)();
        let ended = self.registry.inner.began.elapsed();
        let took = ended.saturating_sub(began);
        component.load_ns.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        *lock(&component.span) = Some((began, ended));
        component.state.store(if result.is_ok() { 2 } else { 3 }, Ordering::Release);
        self.registry.notify(&LoadProgress {
            component: component.name,
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
    fn component_is_created_once_at_first_use() {
        let registry = Registry::new();
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let part = registry.lazy("part", "a part", &[], move || Ok(count.fetch_add(1, Ordering::SeqCst)));
        assert_eq!((registry.status()[0].state, registry.status()[0].load_ms), (LoadState::Idle, None));
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
    fn failure_is_cached_and_reported() {
        let registry = Registry::new();
        let seen: Arc<Mutex<Vec<LoadProgress>>> = Arc::default();
        let (sink, asking) = (seen.clone(), registry.clone());
        registry.listen(Arc::new(move |p| {
            let _ = asking.status();
            lock(&sink).push(p.clone());
        }));
        let part = registry.lazy::<()>("bad", "fails", &["other"], || Err("no".to_owned()));
        assert_eq!((part.get(), part.get()), (Err("no".to_owned()), Err("no".to_owned())));
        assert_eq!(registry.status()[0].state, LoadState::Failed);
        let seen = lock(&seen);
        assert!(seen.len() == 2 && seen[0].finished.is_none() && seen[1].failed, "{seen:?}");
    }

    #[test]
    fn overlap_is_sum_over_union_of_load_times() {
        let at = Duration::from_millis;
        let stats = startup_stats(&[("a", at(0), at(10)), ("b", at(0), at(10)), ("c", at(50), at(60))]);
        assert!(
            (stats.total_ms - 20.0).abs() < 1e-9 && (stats.overlap.unwrap() - 1.5).abs() < 1e-9,
            "{stats:?}"
        );
        assert_eq!(startup_stats(&[]).overlap, None);
    }
}
