//! `gpuforge monitor`: a running process as text, JSON, in a real terminal and in a real browser.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

#[allow(dead_code, reason = "each test file uses its own part of this module")]
mod common;
use common::{Sandbox, run};

/// The binary with sockets of its own.
fn gpuforge(sandbox: &Sandbox, args: &[&str]) -> Command {
    let runtime = sandbox.path("run");
    fs::create_dir_all(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = sandbox.gpuforge(args);
    command.env("XDG_RUNTIME_DIR", runtime).env("GPUFORGE_CPU_ONLY", "1");
    command
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that publishes its state and works for some seconds.
fn demo(sandbox: &Sandbox, name: &str) -> Running {
    let out = sandbox.path(name);
    let mut command = gpuforge(sandbox, &["demo", "--out", out.to_str().unwrap()]);
    command.env("GPUFORGE_MONITOR", "1").stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

fn has_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[test]
fn without_a_process_shows_the_machine_and_a_hint() {
    let sandbox = Sandbox::new();
    let text = run(&mut gpuforge(&sandbox, &["monitor", "--once"])).ok();
    assert!(
        text.stdout.contains("This machine") && text.stdout.contains("GPUFORGE_MONITOR=1"),
        "{}",
        text.stdout
    );
    let json = run(&mut gpuforge(&sandbox, &["monitor", "--json"])).json();
    assert_eq!((&json["state"], &json["snapshot"]), (&Value::from("waiting"), &Value::Null));
    assert!(!json["machine"]["devices"].as_array().unwrap().is_empty());
    // Watching creates nothing.
    assert!(!sandbox.path("run/gpuforge").exists());
}

#[test]
fn wrong_usage_and_unknown_processes_have_a_hint() {
    let sandbox = Sandbox::new();
    let missing = run(&mut gpuforge(&sandbox, &["monitor", "2147483647", "--once"]));
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("does not publish its state")
            && missing.stderr.contains("GPUFORGE_MONITOR=1")
    );
    let piped = run(&mut gpuforge(&sandbox, &["monitor"]));
    assert_eq!(piped.code, Some(2));
    assert!(piped.stderr.contains("--once"), "{}", piped.stderr);
    assert_eq!(run(&mut gpuforge(&sandbox, &["monitor", "--once", "--web"])).code, Some(2));
    assert_eq!(run(&mut gpuforge(&sandbox, &["monitor", "--port", "80"])).code, Some(2));
    // A directory that others can enter: the work goes on with a warning.
    let open = sandbox.path("run/gpuforge");
    fs::create_dir_all(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let mut watched = gpuforge(&sandbox, &["config", "list"]);
    let ran = run(watched.env("GPUFORGE_MONITOR", "1")).ok();
    assert!(
        ran.stderr.contains("others can enter it") && ran.stderr.contains("XDG_RUNTIME_DIR"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_setting_enables_publishing_and_the_variable_overrides_it() {
    let sandbox = Sandbox::new();
    let list = |sandbox: &Sandbox| run(&mut gpuforge(sandbox, &["config", "list"])).ok().stdout;
    assert!(list(&sandbox).contains("monitor"), "it is listed");
    assert!(!sandbox.path("run/gpuforge").exists(), "off by default");
    run(&mut gpuforge(&sandbox, &["config", "set", "monitor", "true"])).ok();
    let off = run(gpuforge(&sandbox, &["config", "get", "monitor"]).env("GPUFORGE_MONITOR", "0")).ok();
    assert_eq!(off.stdout.trim(), "false");
    assert!(!sandbox.path("run/gpuforge").exists(), "the variable wins");
    // Publishing needs the directory; the command itself does not.
    list(&sandbox);
    assert!(sandbox.path("run/gpuforge").is_dir(), "the setting switches it on");
    let wrong = run(gpuforge(&sandbox, &["detect"]).env("GPUFORGE_MONITOR", "perhaps"));
    assert!(wrong.stderr.contains("GPUFORGE_MONITOR"), "{}", wrong.stderr);
}

#[test]
fn a_running_demo_is_visible_and_leaves_no_socket() {
    let sandbox = Sandbox::new();
    let mut demo = demo(&sandbox, "demo");
    let pid = demo.0.id();
    let began = Instant::now();
    let seen = loop {
        let json = run(&mut gpuforge(&sandbox, &["monitor", "--once", "--json"])).json();
        if json["state"] == "live" || began.elapsed() > Duration::from_secs(60) {
            break json;
        }
    };
    assert_eq!(
        (&seen["state"], &seen["snapshot"]["pid"]),
        (&Value::from("live"), &Value::from(pid)),
        "{seen}"
    );
    assert!(seen["snapshot"]["command"].as_str().unwrap().starts_with("demo --out"));
    assert_eq!(seen["snapshot"]["memory"][0]["name"], "this process");
    assert!(seen["snapshot"]["events"][0]["text"].as_str().unwrap().starts_with("began: demo"));
    let percent = seen["cost_percent"].as_f64().unwrap();
    println!("publishing took {percent:.3} % of the time so far, unoptimised");
    assert!(demo.0.wait().unwrap().success());
    assert_eq!(fs::read_dir(sandbox.path("run/gpuforge")).unwrap().count(), 0, "its socket is gone");
}

/// Runs the program on a pseudo-terminal of 80×24, presses keys when it shows certain words, and prints what it wrote.
const PTY: &str = r#"
import fcntl, os, pty, select, struct, sys, termios, time
# Single words: blanks are drawn as jumps.
steps = [(b"waiting", b"?"), (b"keys", b"q")]
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
seen, since, end = b"", 0, time.time() + 60
while time.time() < end:
    ready, _, _ = select.select([fd], [], [], 0.2)
    if ready:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    if steps and steps[0][0] in seen[since:]:
        since = len(seen)
        os.write(fd, steps.pop(0)[1])
else:
    os.kill(pid, 9)
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status) if not steps else 99)
"#;

#[test]
fn terminal_keys_work_and_the_screen_is_restored() {
    if !has_program("python3") {
        return println!("skipped: there is no python3 to open a pseudo-terminal");
    }
    let sandbox = Sandbox::new();
    let inner = gpuforge(&sandbox, &["monitor"]);
    let mut command = Command::new("python3");
    command.args(["-c", PTY]).arg(inner.get_program()).args(inner.get_args()).env("TERM", "xterm-256color");
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let ran = command.output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(
        text.contains("\x1b[?1049h") && text.contains("\x1b[?1049l"),
        "the alternate screen is left again"
    );
    assert!(text.contains("GPUFORGE_MONITOR=1"));
}

/// Drives a headless browser through its debugging pipe: reports when the page waits, then collects its titles until the
/// watched process exits; console errors and a screenshot too.
const BROWSER: &str = r#"
import fcntl, json, os, subprocess, sys, tempfile, time, base64, select
chromium, url, shot = sys.argv[1:4]
def pipe():
    return [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in os.pipe()]
(down_r, down_w), (up_r, up_w) = pipe(), pipe()
def ready():
    os.dup2(down_r, 3)
    os.dup2(up_w, 4)
profile = tempfile.TemporaryDirectory()
flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--remote-debugging-pipe", "--window-size=1200,1400", "--user-data-dir=" + profile.name, "about:blank"]
browser = subprocess.Popen([chromium] + flags, preexec_fn=ready, close_fds=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
end, buffer, number, problems = time.time() + 150, b"", 0, []
def receive():
    global buffer
    while b"\0" not in buffer:
        if time.time() > end or not select.select([up_r], [], [], 5)[0] and browser.poll() is not None:
            raise SystemExit("the browser does not answer")
        if select.select([up_r], [], [], 0)[0]:
            buffer += os.read(up_r, 1 << 20)
    line, buffer = buffer.split(b"\0", 1)
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "Log.entryAdded" and params["entry"]["level"] == "error":
        problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
    if method == "Runtime.exceptionThrown":
        problems.append(json.dumps(params["exceptionDetails"]))
    return message
def call(method, params=None, session=None):
    global number
    number += 1
    message = {"id": number, "method": method, "params": params or {}}
    if session:
        message["sessionId"] = session
    os.write(down_w, json.dumps(message).encode() + b"\0")
    while True:
        answer = receive()
        if answer.get("id") == number:
            return answer.get("result", {})
target = call("Target.createTarget", {"url": "about:blank"})["targetId"]
page = call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
for domain in ["Log.enable", "Runtime.enable", "Page.enable"]:
    call(domain, session=page)
call("Page.navigate", {"url": url}, page)
def value(expression):
    return call("Runtime.evaluate", {"expression": expression}, page).get("result", {}).get("value")
def text(name):
    return value("(document.getElementById('" + name + "') || {}).textContent")
titles, memory = [], set()
while time.time() < end:
    title = text("title")
    if title and (not titles or titles[-1] != title):
        titles.append(title)
        if "waiting" in title:
            print("ready", flush=True)
    if title and "live" in title:
        memory.add(text("memory"))
        call("Emulation.setDeviceMetricsOverride", {"width": 1200, "height": 1400, "deviceScaleFactor": 1, "mobile": False}, page)
    if title and "ended" in title and (text("doctor") or "looking") != "looking":
        break
    time.sleep(0.1)
picture = call("Page.captureScreenshot", {"format": "png"}, page).get("data", "")
open(shot, "wb").write(base64.b64decode(picture))
print(json.dumps({"titles": titles, "memories": len(memory), "problems": problems, "events": text("events"),
                  "memory": text("memory"), "inventory": text("inventory"), "doctor": text("doctor"), "fit": text("fit")}), flush=True)
browser.terminate()
browser.wait()
"#;

#[test]
fn the_web_page_updates_and_outlives_the_process() {
    let Some(chromium) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|p| has_program(p))
    else {
        return println!("skipped: there is no chromium");
    };
    if !has_program("python3") {
        return println!("skipped: there is no python3 to drive the browser");
    }
    let sandbox = Sandbox::new();
    let mut serve = gpuforge(&sandbox, &["monitor", "--web", "--json"]);
    let mut server = Running(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("monitor-page.png");
    let mut driver = Command::new("python3");
    driver.args(["-c", BROWSER, chromium, &url]).arg(&picture);
    let mut driver = Running(driver.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(driver.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready", "the page waits for a process");
    let mut demo = demo(&sandbox, "demo");
    assert!(demo.0.wait().unwrap().success());
    let found: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let titles: Vec<&str> = found["titles"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    let with = |word: &str| titles.iter().filter(|t| t.contains(word)).count();
    assert_eq!(found["problems"], serde_json::json!([]), "no error on the console: {found}");
    assert!(with("live") >= 2, "it moved: {titles:?}");
    assert!(titles.last().unwrap().contains("ended"), "it outlived the process: {titles:?}");
    assert!(found["memories"].as_u64() >= Some(2), "{found}");
    assert!(found["memory"].as_str().unwrap().contains("this process"), "the last figures stay: {found}");
    assert!(found["events"].as_str().unwrap().contains("began: demo"), "{found}");
    for part in ["inventory", "doctor", "fit"] {
        let text = found[part].as_str().unwrap();
        assert!(!text.is_empty() && text != "looking", "{part}: {found}");
    }
    assert!(fs::metadata(&picture).unwrap().len() > 1000, "a picture is kept");
    // The page itself is still there, and asks for its token.
    let port: u16 = url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    assert!(status.contains("403"), "{status}");
}
