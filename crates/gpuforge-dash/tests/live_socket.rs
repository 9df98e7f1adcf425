//! Publisher and follower over the Unix socket: contents, privacy, slow viewers, stale sockets.
//!
//! One process has one publisher: the tests of this file take turns. They look at modes and at the socket itself, so they are of
//! Unix; what other platforms do is in the tests of gpuforge-os, `live_web.rs` and the CLI's `windows.rs`.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gpuforge_dash::live::{
    LiveError, feed,
    follower::Follower,
    publisher::{INTERVAL, MAX_VIEWERS, Publisher, add_source},
    snapshot::{DeviceStatus, EventLevel, MAX_ROWS, RoutingDecision, Snapshot, VERSION},
    socket_dir,
    view::ConnectionState,
};
use gpuforge_profile::{Category, Name, Span};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory that only its owner can enter, whatever the umask says.
fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn follower(directory: &Path) -> Follower {
    Follower::new(directory, Some(std::process::id()))
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn viewer_receives_operations_decisions_events_and_sources() {
    let _turn = turn();
    let dir = directory();
    let sockets = dir.path().join("gpuforge");
    let publisher = Publisher::start(&sockets, "test").unwrap();
    assert_eq!(fs::metadata(&sockets).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(publisher.path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(socket_dir::processes(&sockets), [std::process::id()]);
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    add_source(Box::new(move |snapshot: &mut Snapshot| {
        let device = DeviceStatus { name: "dummy".into(), state: "open".into(), ..DeviceStatus::default() };
        snapshot.devices.push(device);
        counted.fetch_add(1, Ordering::Relaxed) < 2
    }));
    let mut follower = follower(&sockets);
    assert!(follower.wait(LONG, |v| v.snapshot.is_some()));
    feed::event(EventLevel::Warning, || "it got warm".to_owned());
    for _ in 0..50 {
        drop(Span::named("live_link::work", Category::Cpu));
        feed::routed(|| RoutingDecision {
            operation: "xor".into(),
            place: "cpu".into(),
            ..RoutingDecision::default()
        });
    }
    gpuforge_profile::counter!("live_link::bytes").add(4096);
    gpuforge_profile::gauge!("live_link::load").set(0.5);
    gpuforge_profile::counter!("route/xor/cpu/x/runs").add(1);
    let seen = |v: &gpuforge_dash::live::view::LiveView| {
        v.rates.iter().any(|r| r.name == "live_link::work" && r.per_second.is_some())
            && v.snapshot.as_ref().is_some_and(|s| {
                !s.counters.is_empty() && s.routed >= 50 && s.events.iter().any(|e| e.text == "it got warm")
            })
    };
    assert!(follower.wait(LONG, seen), "{:?}", follower.view());
    let snapshot = follower.view().snapshot.clone().unwrap();
    let counter = snapshot.counters.iter().find(|c| c.name == "live_link::bytes").unwrap();
    let gauge = snapshot.gauges.iter().find(|g| g.name == "live_link::load").unwrap();
    assert_eq!((counter.value, gauge.value, gauge.most), (4096, 0.5, Some(0.5)));
    assert!(snapshot.counters.iter().all(|c| !c.name.starts_with("route/")), "decisions are told apart");
    assert_eq!(
        (snapshot.version, snapshot.pid, snapshot.command.as_str()),
        (VERSION, std::process::id(), "test")
    );
    assert!(snapshot.routing.iter().all(|r| r.operation == "xor") && !snapshot.routing.is_empty());
    // A source that has said false is not asked again.
    assert!(follower.wait(LONG, |v| v.snapshot.as_ref().unwrap().devices.is_empty()));
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let path = publisher.path().to_owned();
    // A second one is the first; the socket stays until both are gone.
    let again = Publisher::start(&sockets, "other").unwrap();
    drop(publisher);
    assert!(path.exists());
    drop(again);
    assert!(!path.exists());
    assert!(follower.wait(LONG, |v| v.state == ConnectionState::Ended));
    assert!(follower.view().snapshot.is_some(), "the last snapshot stays");
    assert!(!feed::is_on());
}

#[test]
fn viewer_that_does_not_read_is_dropped() {
    let _turn = turn();
    let dir = directory();
    let publisher = Publisher::start(dir.path(), "test").unwrap();
    // Large snapshots, so that the socket is full after a few; the other tests are spared.
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    add_source(Box::new(move |snapshot: &mut Snapshot| {
        if weak.upgrade().is_none() {
            return false;
        }
        let device =
            DeviceStatus { name: "x".repeat(120), state: "y".repeat(120), ..DeviceStatus::default() };
        snapshot.devices = vec![device; MAX_ROWS];
        true
    }));
    let stuck = UnixStream::connect(publisher.path()).unwrap();
    let mut reader = BufReader::new(UnixStream::connect(publisher.path()).unwrap());
    reader.get_ref().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // The socket of the stuck one holds some hundred kilobytes: full after about ten snapshots, dropped ten later.
    let (mut gaps, mut line, mut alone) = (Vec::new(), String::new(), None);
    let began = Instant::now();
    let mut last = began;
    while began.elapsed() < Duration::from_secs(60) {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the reader was dropped");
        let snapshot: Snapshot = serde_json::from_str(&line).unwrap();
        gaps.push(last.elapsed());
        last = Instant::now();
        // The thread's own pace never stalls, and is never faster than it may be.
        if snapshot.cost.viewers == 1 && gaps.len() > 2 {
            alone = Some(snapshot.seq);
            break;
        }
        // What the process does is not held up by any of it.
        let work = Instant::now();
        feed::event(EventLevel::Info, || "work goes on".to_owned());
        drop(Span::named("live_link::other", Category::Cpu));
        assert!(work.elapsed() < Duration::from_millis(200), "{:?}", work.elapsed());
    }
    assert!(alone.is_some(), "the stuck one was never dropped, {} snapshots", gaps.len());
    gaps.sort_unstable();
    let (median, most) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    assert!(median >= INTERVAL - Duration::from_millis(50), "{median:?}");
    assert!(most < Duration::from_secs(5), "{most:?}");
    let mut rest = Vec::new();
    stuck.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    (&stuck).read_to_end(&mut rest).unwrap();
    assert!(!rest.is_empty(), "it was served until it was full");
    drop(publisher);
}

#[test]
fn no_snapshots_without_viewers_and_low_cost_with() {
    let _turn = turn();
    let dir = directory();
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    let publisher = Publisher::start(dir.path(), "test").unwrap();
    add_source(Box::new(move |_: &mut Snapshot| {
        counted.fetch_add(1, Ordering::Relaxed);
        true
    }));
    // The usual number of names, each with a full window.
    for name in 0..12 {
        for _ in 0..1200 {
            drop(Span::named(Name::new(&format!("live_link::cost {name}")), Category::Cpu));
        }
    }
    thread::sleep(2 * INTERVAL);
    assert_eq!(asked.load(Ordering::Relaxed), 0, "nobody looked");
    let mut follower = follower(dir.path());
    let began = Instant::now();
    assert!(follower.wait(LONG, |v| v.snapshot.as_ref().is_some_and(|s| s.seq >= 6)));
    let made = asked.load(Ordering::Relaxed);
    let most = began.elapsed().as_millis() as u64 / INTERVAL.as_millis() as u64 + 2;
    assert!(made <= most, "{made} snapshots, at most {most}");
    let cost = follower.view().snapshot.as_ref().unwrap().cost;
    let per_snapshot = Duration::from_nanos(cost.cpu_ns.unwrap() / cost.snapshots.max(1));
    println!("a snapshot took {per_snapshot:?} of its thread, unoptimised");
    // Unoptimised and on a busy machine; the pace itself keeps the share below 1 % (publisher::pause).
    assert!(per_snapshot < Duration::from_millis(100), "{per_snapshot:?}");
    drop(publisher);
}

#[test]
fn viewers_are_limited() {
    let _turn = turn();
    let dir = directory();
    let publisher = Publisher::start(dir.path(), "test").unwrap();
    let viewers: Vec<UnixStream> =
        (0..MAX_VIEWERS + 3).map(|_| UnixStream::connect(publisher.path()).unwrap()).collect();
    let served = |stream: &UnixStream| {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        matches!((&*stream).read(&mut [0]), Ok(1))
    };
    assert_eq!(viewers.iter().filter(|v| served(v)).count(), MAX_VIEWERS);
    drop(publisher);
}

#[test]
fn socket_directory_must_be_private() {
    let dir = directory();
    let open = dir.path().join("open");
    fs::DirBuilder::new().mode(0o755).create(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for (bad, word) in [(&open, "others can enter"), (&link, "not a directory"), (&file, "not a directory")] {
        let error = socket_dir::prepare(bad).unwrap_err();
        assert!(matches!(&error, LiveError::SocketDir { why, .. } if why.contains(word)), "{error}");
        assert!(error.hint().contains("XDG_RUNTIME_DIR"));
        assert!(socket_dir::processes(bad).is_empty());
    }
    let missing = socket_dir::prepare(&dir.path().join("a/b")).unwrap_err();
    assert!(matches!(missing, LiveError::Io { .. }));
}

#[test]
fn stale_sockets_are_removed_and_other_files_kept() {
    let dir = directory();
    // No process has this number: it is above the kernel's limit.
    let dead = socket_dir::socket(dir.path(), i32::MAX as u32);
    drop(UnixListener::bind(&dead).unwrap());
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    assert!(socket_dir::processes(dir.path()).is_empty());
    assert!(!dead.exists() && dir.path().join("notes.txt").exists());
    // Such a number where somebody listens: a process of another container that shares the directory.
    let far = UnixListener::bind(&dead).unwrap();
    assert_eq!(socket_dir::processes(dir.path()), [i32::MAX as u32]);
    assert!(dead.exists(), "it is not ours to remove");
    drop(far);
    assert!(socket_dir::processes(dir.path()).is_empty() && !dead.exists());
    // One of a living number where nobody listens goes at the first connect.
    let parent = std::os::unix::process::parent_id();
    let refused = socket_dir::socket(dir.path(), parent);
    drop(UnixListener::bind(&refused).unwrap());
    let mut follower = Follower::new(dir.path(), None);
    assert!(!follower.poll());
    assert_eq!((follower.view().state, refused.exists()), (ConnectionState::Waiting, false));
}

#[test]
fn garbage_and_other_versions_are_foreign() {
    let dir = directory();
    let pid = std::os::unix::process::parent_id();
    let listener = UnixListener::bind(socket_dir::socket(dir.path(), pid)).unwrap();
    let mut follower = Follower::new(dir.path(), Some(pid));
    follower.poll();
    assert_eq!(follower.connected(), Some(pid));
    let (mut other, _) = listener.accept().unwrap();
    other.write_all(b"\n{\n[1]\n\xff\xfe\n{\"version\":1").unwrap();
    assert!(!follower.poll());
    assert_eq!(follower.connected(), Some(pid));
    let line = serde_json::to_vec(&Snapshot { version: VERSION + 1, pid, ..Snapshot::default() }).unwrap();
    other.write_all(b"\n").unwrap();
    other.write_all(&line).unwrap();
    other.write_all(b"\n").unwrap();
    assert!(follower.wait(LONG, |v| v.state == ConnectionState::Foreign));
    // A line without an end is not kept for ever.
    assert!(follower.wait(LONG, |_| true));
    thread::sleep(Duration::from_millis(400));
    follower.poll();
    let (mut other, _) = listener.accept().unwrap();
    let flood = thread::spawn(move || {
        let junk = vec![b'x'; 64 << 10];
        while other.write_all(&junk).is_ok() {}
    });
    assert!(follower.wait(LONG, |v| v.state == ConnectionState::Foreign));
    let _ = follower.wait(Duration::from_secs(1), |_| false);
    drop((follower, listener));
    flood.join().unwrap();
}

#[test]
fn publisher_started_while_the_last_one_stops_keeps_its_socket() {
    let _turn = turn();
    let dir = directory();
    let work = || {
        for _ in 0..50 {
            let publisher = Publisher::start(dir.path(), "test").unwrap();
            assert!(publisher.path().exists(), "somebody else's end took it away");
            drop(publisher);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    assert!(!feed::is_on() && !socket_dir::socket(dir.path(), std::process::id()).exists());
    let publisher = Publisher::start(dir.path(), "test").unwrap();
    assert!(follower(dir.path()).wait(LONG, |v| v.state == ConnectionState::Live), "it still serves");
    drop(publisher);
}

#[test]
fn last_publisher_may_be_dropped_in_a_source() {
    let _turn = turn();
    let dir = directory();
    let publisher = Publisher::start(dir.path(), "test").unwrap();
    let path = publisher.path().to_owned();
    // As when a runtime is dropped while a snapshot asks it.
    let held = Mutex::new(Some(publisher));
    add_source(Box::new(move |_: &mut Snapshot| {
        drop(held.lock().unwrap().take());
        false
    }));
    let viewer = UnixStream::connect(&path).unwrap();
    viewer.set_read_timeout(Some(LONG)).unwrap();
    let mut rest = Vec::new();
    (&viewer).read_to_end(&mut rest).unwrap();
    assert!(!path.exists() && !feed::is_on(), "the thread has ended, and waited for nobody");
}

#[test]
fn slow_viewer_gets_whole_lines_without_blocking_others() {
    let _turn = turn();
    let dir = directory();
    let publisher = Publisher::start(dir.path(), "test").unwrap();
    let mut slow = UnixStream::connect(publisher.path()).unwrap();
    slow.set_read_timeout(Some(LONG)).unwrap();
    let mut quick = follower(dir.path());
    assert!(quick.wait(LONG, |v| v.snapshot.is_some()));
    let mut begun = [0; 3];
    slow.read_exact(&mut begun).unwrap();
    let before = quick.view().snapshot.as_ref().unwrap().seq;
    let began = Instant::now();
    assert!(quick.wait(LONG, |v| v.snapshot.as_ref().is_some_and(|s| s.seq >= before + 3)));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let mut lines = BufReader::new(begun.chain(slow));
    for _ in 0..3 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(serde_json::from_str::<Snapshot>(&line).is_ok(), "{line}");
    }
    drop(publisher);
}
