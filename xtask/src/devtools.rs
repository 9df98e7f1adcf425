//! Chrome DevTools protocol client over a pair of pipes (`--remote-debugging-pipe`): JSON messages terminated by NUL.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON gives null where there is nothing, and never panics on reading"
)]

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Names under which the browser is installed.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Deadline of every call.
const LIMIT: Duration = Duration::from_secs(60);

/// A running browser with one tab; killed on drop.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Exceptions, console errors, policy violations and network requests of the page.
    pub(crate) errors: Vec<String>,
    loaded: bool,
    _profile: tempfile::TempDir,
}

/// The browser of this machine, if there is one.
pub(crate) fn installed() -> Option<&'static str> {
    NAMES.into_iter().find(|name| crate::sh::works(Command::new(name).arg("--version")))
}

impl Browser {
    /// Starts it headless, without a network, with a temporary profile.
    pub(crate) fn start(name: &str) -> Result<Browser> {
        let profile = tempfile::tempdir()?;
        // The protocol uses the descriptors 3 and 4; a shell can give them to a child without unsafe code.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script, name, "--headless=new", "--remote-debugging-pipe", "--no-first-run"])
            .args([
                "--disable-gpu",
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
            ])
            // No host resolves: a page that loads anything external fails visibly.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let to = child.stdin.take().context("no pipe to the browser")?;
        let out = child.stdout.take().context("no pipe from the browser")?;
        let (send, from) = channel();
        thread::spawn(move || {
            for message in BufReader::new(out).split(0).map_while(Result::ok) {
                if let Ok(value) = serde_json::from_slice(&message)
                    && send.send(value).is_err()
                {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            to,
            from,
            session: String::new(),
            next: 0,
            errors: Vec::new(),
            loaded: false,
            _profile: profile,
        };
        let tab = browser.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": tab["targetId"], "flatten": true}))?;
        attached["sessionId"].as_str().context("no session")?.clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method and waits for its response; events meanwhile are handled.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).and_then(|()| self.to.flush()).context("the browser exited")?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let message = self.receive(deadline).with_context(|| format!("{method} was not answered"))?;
            if message["id"] == json!(id) {
                if let Some(error) = message.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(message["result"].clone());
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.from.recv_timeout(left) {
            Ok(message) => {
                self.event(&message);
                Ok(message)
            }
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {} s", LIMIT.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("the browser exited"),
        }
    }

    fn event(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loaded = true,
            "Runtime.exceptionThrown" => {
                self.errors
                    .push(format!("exception: {}", params["exceptionDetails"]["exception"]["description"]));
            }
            "Runtime.consoleAPICalled"
                if matches!(params["type"].as_str(), Some("error" | "warning" | "assert")) =>
            {
                self.errors.push(format!("console: {}", params["args"]));
            }
            // Policy violations and failed requests come here.
            "Log.entryAdded" if matches!(params["entry"]["level"].as_str(), Some("error" | "warning")) => {
                self.errors.push(format!("log: {}", params["entry"]["text"]));
            }
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let own =
                    ["file:", "data:", "about:", "http://127.0.0.1"].iter().any(|kind| url.starts_with(kind));
                if !own {
                    self.errors.push(format!("asks the network for {url}"));
                }
            }
            _ => {}
        }
    }

    /// Opens a URL, waits until it is loaded, and returns the load time.
    pub(crate) fn open(&mut self, url: &str) -> Result<Duration> {
        self.loaded = false;
        let began = Instant::now();
        let answer = self.call("Page.navigate", json!({"url": url}))?;
        if let Some(error) = answer["errorText"].as_str() {
            bail!("{url}: {error}");
        }
        while !self.loaded {
            self.receive(began + LIMIT)?;
        }
        Ok(began.elapsed())
    }

    /// The value of an expression.
    pub(crate) fn eval(&mut self, script: &str) -> Result<Value> {
        let params = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params)?;
        if let Some(details) = answer.get("exceptionDetails") {
            bail!("{script}: {}", details["exception"]["description"]);
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, script: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while self.eval(script)? != json!(true) {
            if Instant::now() > deadline {
                bail!("still not true after {} s: {script}", LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) -> Result<()> {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({"type": kind, "key": key});
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", params)?;
        }
        Ok(())
    }

    /// Sets viewport size and `prefers-color-scheme`.
    pub(crate) fn emulate(&mut self, width: u32, height: u32, dark: bool) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features)?;
        // Two frames: one to lay out, one to draw.
        self.eval(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
        )?;
        Ok(())
    }

    /// Saves a screenshot of the whole page.
    pub(crate) fn screenshot(&mut self, path: &Path) -> Result<()> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let answer =
            self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true}))?;
        let data = answer["data"].as_str().context("no screenshot")?;
        let bytes = STANDARD.decode(data).map_err(|error| anyhow::anyhow!("{error}"))?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have exited already; its profile is removed afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
