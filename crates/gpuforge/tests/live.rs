//! Live monitoring: a `Forge` is published if and only if the settings enable it.
//!
//! A process has one publisher: the tests of this file are serialised.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gpuforge::{
    Forge,
    dash::live::{feed, follower::Follower, publisher::Publisher, socket_dir, view::LiveView},
    ops,
    route::{BatchOptions, PlacementPolicy, RunOptions},
    settings::{Settings, UserPaths, set},
    tensor,
};

static TURN: Mutex<()> = Mutex::new(());
const LONG: Duration = Duration::from_secs(20);

/// A home directory and a private socket directory.
struct World {
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    fn new() -> World {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        World { dir, _turn }
    }

    fn paths(&self) -> UserPaths {
        let path = |name: &str| self.dir.path().join(name);
        UserPaths { config_file: path("c.toml"), cache_dir: path("cache"), data_dir: path("data") }
    }

    fn env(&self, monitor: Option<&'static str>) -> impl Fn(&str) -> Option<String> + use<> {
        let runtime = self.dir.path().to_str().unwrap().to_owned();
        move |name| match name {
            "XDG_RUNTIME_DIR" => Some(runtime.clone()),
            "GPUFORGE_CPU_ONLY" => Some("1".to_owned()),
            "GPUFORGE_MONITOR" => monitor.map(str::to_owned),
            _ => None,
        }
    }

    fn forge(&self, monitor: Option<&'static str>) -> Forge {
        let (paths, env) = (self.paths(), self.env(monitor));
        Forge::with(&Settings::load(&paths, &env, &[]).unwrap(), &paths, &env)
    }

    fn sees(&self, enough: impl Fn(&LiveView) -> bool) -> bool {
        let sockets = socket_dir::resolve(&self.env(None));
        Follower::new(&sockets, Some(std::process::id())).wait(LONG, enough)
    }
}

fn work(forge: &Forge) {
    let data = tensor(&[7u8; 100], &[100]).unwrap();
    let on_cpu = RunOptions { placement: PlacementPolicy::Only(0), ..RunOptions::default() };
    forge.run_with(&ops::xor(&data, &tensor(&[1u8], &[1]).unwrap()), on_cpu).unwrap();
}

#[test]
fn monitor_setting_publishes_and_the_variable_overrides() {
    let world = World::new();
    drop(world.forge(None));
    assert!(!feed::is_on() && !world.dir.path().join("gpuforge").exists(), "off by default");
    set(&world.paths().config_file, "monitor", "true").unwrap();
    drop(world.forge(Some("0")));
    assert!(!world.dir.path().join("gpuforge").exists(), "the variable wins");
    let forge = world.forge(None);
    assert!(feed::is_on());
    work(&forge);
    let decided = |v: &LiveView| {
        let routing = v.snapshot.iter().flat_map(|s| &s.routing);
        routing.into_iter().any(|r| r.operation == "xor" && !r.reason.is_empty())
    };
    assert!(world.sees(decided));
    drop(forge);
    assert!(!feed::is_on(), "nobody publishes any more");
    assert!(fs::read_dir(world.dir.path().join("gpuforge")).unwrap().next().is_none());
}

#[test]
fn batch_items_count_as_decisions() {
    let world = World::new();
    let forge = world.forge(Some("1"));
    let key = tensor(&[1u8], &[1]).unwrap();
    let items = (0..40u8).map(|i| ops::xor(&tensor(&[i; 8], &[8]).unwrap(), &key));
    let on_cpu = BatchOptions { placement: PlacementPolicy::Only(0), ..BatchOptions::default() };
    let before = forge.batch_with(items, on_cpu).unwrap().stats.backends;
    assert_eq!(before.len(), 1);
    let told = |v: &LiveView| {
        v.snapshot.as_ref().is_some_and(|s| {
            let row = s.routing.iter().find(|r| r.operation == "batch, 40 of 40 items");
            s.batched >= 40 && s.routed >= s.batched && row.is_some_and(|r| r.place == before[0].backend)
        })
    };
    assert!(world.sees(told));
}

#[test]
fn monitor_flag_publishes() {
    let world = World::new();
    let (paths, env) = (world.paths(), world.env(None));
    let settings = Settings::load(&paths, &env, &[("monitor", "true")]).unwrap();
    let forge = Forge::with(&settings, &paths, &env);
    assert!(feed::is_on());
    drop(forge);
    assert!(!feed::is_on());
}

#[test]
fn forge_adds_to_an_already_published_process() {
    let world = World::new();
    let sockets = socket_dir::resolve(&world.env(None));
    let publisher = Publisher::start(&sockets, "the program's own").unwrap();
    let forge = world.forge(None);
    work(&forge);
    drop(publisher);
    assert!(world.sees(|v| v.snapshot.as_ref().is_some_and(|s| s.command == "the program's own")));
    drop(forge);
    assert!(!feed::is_on());
}
