//! The interface on the platform that runs the tests: Unix, or Windows (also under Wine).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail")]

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gpuforge_os::{
    files,
    local_socket::{Listener, Stream},
    private_dir,
    process::{self, ProcessGroup},
};

/// Deadline of every step, on slow machines too.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_file_is_itself_until_its_name_is_given_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "sécond name"].map(|name| directory.path().join(name));
    let file = File::create(&first).unwrap();
    fs::write(&second, "").unwrap();
    assert!(files::same_file(&file, &first));
    assert!(!files::same_file(&file, &second), "of equal length");
    assert!(!files::same_file(&file, &directory.path().join("none")));
    fs::rename(&first, directory.path().join("elsewhere")).unwrap();
    fs::rename(&second, &first).unwrap();
    assert!(!files::same_file(&file, &first));
}

/// Wine 8 knows no renames with POSIX semantics.
fn is_wine() -> bool {
    std::path::Path::new("C:\\windows\\system32\\winecfg.exe").exists()
}

#[test]
fn a_rename_waits_for_a_reader_that_is_about_to_close() {
    let directory = tempfile::tempdir().unwrap();
    let [new, old] = ["new", "old"].map(|name| directory.path().join(name));
    fs::write(&old, "old").unwrap();
    fs::write(&new, "new").unwrap();
    let reader = File::open(&old).unwrap();
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(reader);
    });
    files::rename_over(&new, &old).unwrap();
    closing.join().unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "new");
    // A directory is in the way: an error, and the file stays.
    fs::create_dir(&new).unwrap();
    assert!(files::rename_over(&old, &new).is_err());
    assert!(old.is_file() && new.is_dir());
}

#[test]
fn a_locked_file_can_be_renamed_over_one_that_is_open() {
    if is_wine() {
        return println!("skipped: Wine 8 does not rename over an open file as Windows does");
    }
    let directory = tempfile::tempdir().unwrap();
    let [new, old] = ["new", "old"].map(|name| directory.path().join(name));
    fs::write(&old, "old").unwrap();
    let mut reader = File::open(&old).unwrap();
    let mut file = File::create(&new).unwrap();
    file.lock().unwrap();
    file.write_all(b"new").unwrap();
    files::release_before_rename(&file);
    files::rename_over(&new, &old).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "new");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old", "who has it open reads on");
}

#[test]
fn disk_space_and_programs() {
    let directory = tempfile::tempdir().unwrap();
    let space = files::disk_space(directory.path()).unwrap();
    assert!(0 < space.free && space.free <= space.total, "{space:?}");
    assert_eq!(files::disk_space(&directory.path().join("none")), None);
    assert!(files::is_executable(&std::env::current_exe().unwrap()));
    assert!(!files::is_executable(directory.path()));
    assert_eq!(files::with_mode(0o644).is_some(), cfg!(unix));
}

#[test]
fn a_private_directory_is_private_and_another_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("ours ü");
    assert!(private_dir::check(&ours).is_err(), "it does not exist");
    private_dir::create(&ours).unwrap();
    assert_eq!(private_dir::check(&ours), Ok(()));
    assert_eq!(private_dir::create(&ours).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    fs::write(ours.join("file"), "x").unwrap();
    assert_eq!(private_dir::check_file(&File::open(ours.join("file")).unwrap()), Ok(()));
    assert!(private_dir::check(&ours.join("file")).unwrap_err().contains("not a directory"));
    let open = directory.path().join("open");
    open_to_all(&open);
    let why = private_dir::check(&open).unwrap_err();
    assert!(why.contains("others can enter it"), "{why}");
    assert!(private_dir::runtime().is_absolute());
}

#[cfg(unix)]
fn open_to_all(path: &std::path::Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, files::with_mode(0o755).unwrap()).unwrap();
}

/// Windows has no word for it in the standard library; its own tool does it.
#[cfg(windows)]
fn open_to_all(path: &std::path::Path) {
    fs::create_dir(path).unwrap();
    // Under Wine a new directory has the mode of the umask, which lets others in; Wine's icacls does nothing.
    let _ = Command::new("icacls").arg(path).args(["/grant", "*S-1-1-0:(OI)(CI)F"]).output();
}

#[test]
fn this_process_lives_and_has_memory_time_and_cpus() {
    assert!(!process::is_gone(std::process::id()));
    let mut child = sleeper().spawn().unwrap();
    let pid = child.id();
    assert!(!process::is_gone(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(child);
    until("the id is free", || process::is_gone(pid));
    let memory = process::memory().unwrap();
    assert!(memory.resident > 1 << 20 && memory.peak.unwrap() >= memory.resident / 2, "{memory:?}");
    assert!(memory.machine.unwrap() > memory.resident, "{memory:?}");
    let began = Instant::now();
    let mut sum = 0_u64;
    while process::cpu_time().unwrap().is_zero() && began.elapsed() < PATIENCE {
        sum = std::hint::black_box(sum + 1);
    }
    assert!(process::cpu_time().unwrap() > Duration::ZERO);
    assert!(process::thread_cpu_time().is_some());
    assert!(process::affinity().unwrap() >= 1);
    println!("limits: {:?}", process::limits());
}

#[test]
fn a_socket_carries_bytes_and_refuses_when_its_process_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sock");
    let listener = Listener::bind(&path).unwrap();
    assert!(Listener::bind(&path).is_err(), "the name is taken");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let mut client = Stream::connect(&path).unwrap();
    let mut server = None;
    until("a connection", || {
        server = listener.accept().ok();
        server.is_some()
    });
    let mut server = server.unwrap();
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    server.write_all(b"line\n").unwrap();
    let mut got: Vec<u8> = Vec::new();
    until("the bytes", || {
        let mut part = [0; 8];
        if let Ok(n) = client.read(&mut part) {
            got.extend(part.iter().take(n));
        }
        got == b"line\n"
    });
    drop(server);
    until("the end", || matches!(client.read(&mut [0; 8]), Ok(0)));
    drop(listener);
    assert_eq!(Stream::connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(
        Stream::connect(&directory.path().join("2.sock")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

/// What the children of the tests do; alone they do nothing.
#[test]
fn child_that_sleeps() {
    match std::env::var("GPUFORGE_OS_TEST_CHILD").as_deref() {
        Ok("sleeps") => std::thread::sleep(PATIENCE),
        Ok("starts another") => {
            let mut grandchild = sleeper().spawn().unwrap();
            println!("grandchild {}", grandchild.id());
            grandchild.wait().unwrap();
        }
        _ => {}
    }
}

fn sleeper() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_that_sleeps", "--nocapture"]).env("GPUFORGE_OS_TEST_CHILD", "sleeps");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_group_is_killed_with_the_children_of_the_child() {
    let mut command = sleeper();
    command.env("GPUFORGE_OS_TEST_CHILD", "starts another").stdout(Stdio::piped());
    ProcessGroup::prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let group = ProcessGroup::of(&child);
    let mut output = io::BufReader::new(child.stdout.take().unwrap());
    let grandchild = loop {
        let mut line = String::new();
        assert!(io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "no grandchild");
        if let Some((_, pid)) = line.trim().split_once("grandchild ") {
            break pid.parse().unwrap();
        }
    };
    assert!(!process::is_gone(grandchild));
    group.kill();
    assert!(!child.wait().unwrap().success());
    // The pipe ends when the last process that holds it does.
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    drop(child);
    // Elsewhere it is a zombie until init has seen it.
    if cfg!(windows) {
        until("the grandchild is gone", || process::is_gone(grandchild));
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
