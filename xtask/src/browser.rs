//! Browser tests: opens report pages in headless Chromium, drives them by keyboard and mouse, takes screenshots.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON gives null where there is nothing, and never panics on reading"
)]

use crate::{devtools, sh};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// Arguments of `cargo xtask browser`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Spans of the large trace
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    spans: u64,
}

/// XSS probe: a name that would run a script if it were inserted as markup.
const HOSTILE: &str = "</script><img src=x onerror=\"document.title='hacked'\">";

/// Runs; an error if a page logs an error or misbehaves.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(name) = devtools::installed() else {
        eprintln!("skipped: no Chromium is installed");
        return Ok(());
    };
    let built = sh::build(&["gpuforge-cli"], &[], false)?;
    let gpuforge = sh::executable(&built, "gpuforge")?;
    let directory = gpuforge.parent().and_then(Path::parent).context("no target directory")?.join("browser");
    fs::create_dir_all(&directory)?;
    let real = directory.join("real.json");
    let mut command = Command::new(&gpuforge);
    command
        .args(["profile", "run", "-q", "-o"])
        .arg(&real)
        .args(["--", "demo", "--out"])
        .arg(directory.join("demo"));
    sh::run(command.stdout(std::process::Stdio::null()))?;
    let large = directory.join("large.json");
    fs::write(&large, synthetic(args.spans).to_string())?;
    for trace in [&real, &large] {
        let page = trace.with_extension("html");
        sh::run(Command::new(&gpuforge).arg("report").arg(trace).arg("-o").arg(&page))?;
    }
    let mut browser = devtools::Browser::start(name)?;
    check(&mut browser, &real.with_extension("html"), &directory, false)?;
    check(&mut browser, &large.with_extension("html"), &directory, true)?;
    eprintln!("screenshots: {}", directory.display());
    Ok(())
}

/// Opens one page and exercises all of it.
fn check(browser: &mut devtools::Browser, page: &Path, directory: &Path, large: bool) -> Result<()> {
    let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    browser.emulate(1280, 900, false)?;
    let took = browser.open(&format!("file://{}", page.display()))?;
    browser.until("document.querySelector('#timeline').dataset.drawn === 'yes' && document.querySelector('#flame').dataset.drawn === 'yes'")?;
    let drawn = browser.eval("performance.now()")?.as_f64().unwrap_or(f64::INFINITY);
    let size = fs::metadata(page)?.len();
    eprintln!("{name}: {size} bytes, loaded after {} ms, drawn within {drawn:.0} ms", took.as_millis());
    ensure!(drawn < 1000.0, "{name}: {drawn:.0} ms until it was drawn");
    timeline(browser)?;
    flame(browser)?;
    table(browser)?;
    if large {
        ensure!(size <= 2 << 20, "{name}: {size} bytes");
        let title = browser.eval("document.title + document.querySelectorAll('img').length")?;
        ensure!(title.as_str().is_some_and(|t| t.starts_with("gpuforge") && t.ends_with('0')), "{title}");
        let shown = browser.eval(&format!("document.body.textContent.includes({})", json!(HOSTILE)))?;
        ensure!(shown == json!(true), "the name is shown as text");
    }
    browser.eval(
        "document.querySelector('#all').click(); document.activeElement.blur(); scrollTo(0, 0); true",
    )?;
    for (look, width, dark) in
        [("light", 1280, false), ("dark", 1280, true), ("narrow", 400, false), ("narrow-dark", 400, true)]
    {
        browser.emulate(width, 900, dark)?;
        let wide =
            browser.eval("document.documentElement.scrollWidth <= document.documentElement.clientWidth")?;
        ensure!(wide == json!(true), "{name}: the page is wider than {width} pixels");
        contrast(browser, look)?;
        browser.screenshot(&directory.join(format!("{name}-{look}.png")))?;
    }
    if !browser.errors.is_empty() {
        bail!("{name}: {}", browser.errors.join("; "));
    }
    Ok(())
}

fn number(browser: &mut devtools::Browser, script: &str) -> Result<f64> {
    browser.eval(script)?.as_f64().with_context(|| format!("{script} is not a number"))
}

const SPAN: &str = "Number(document.querySelector('#timeline').dataset.to) - Number(document.querySelector('#timeline').dataset.from)";

/// Zooms, pans and selects by keys and buttons.
fn timeline(browser: &mut devtools::Browser) -> Result<()> {
    const FRAME: &str =
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
    browser.eval("document.querySelector('#timeline').focus(); true")?;
    let whole = number(browser, SPAN)?;
    for _ in 0..3 {
        browser.press("+")?;
    }
    browser.eval(FRAME)?;
    let zoomed = number(browser, SPAN)?;
    ensure!(zoomed < whole * 0.3, "zoomed from {whole} to {zoomed}");
    let from = "Number(document.querySelector('#timeline').dataset.from)";
    let before = number(browser, from)?;
    browser.press("ArrowRight")?;
    browser.eval(FRAME)?;
    ensure!(number(browser, from)? > before, "an arrow moves");
    browser.eval(&format!("document.querySelector('#in').click(); {FRAME}"))?;
    ensure!(number(browser, SPAN)? < zoomed, "the button zooms");
    browser.press("n")?;
    browser.eval(FRAME)?;
    ensure!(
        browser.eval("document.querySelector('#timeline-says').textContent.trim().length > 10")?
            == json!(true),
        "a span is told"
    );
    browser.press("0")?;
    browser.eval(FRAME)?;
    ensure!((number(browser, SPAN)? - whole).abs() < 1.0, "all is shown again");
    // The wheel zooms with Ctrl only: without, the page scrolls.
    let wheel = |ctrl: bool| {
        format!(
            "document.querySelector('#timeline').dispatchEvent(new WheelEvent('wheel', {{deltaY: -200, clientX: 300, ctrlKey: {ctrl}, \
             bubbles: true, cancelable: true}})); {FRAME}"
        )
    };
    browser.eval(&wheel(false))?;
    ensure!((number(browser, SPAN)? - whole).abs() < 1.0, "the wheel alone does not zoom");
    browser.eval(&wheel(true))?;
    ensure!(number(browser, SPAN)? < whole, "Ctrl and wheel zoom");
    browser.press("Escape")?;
    browser.press("0")
}

/// Zooms into a flame graph frame and back.
fn flame(browser: &mut devtools::Browser) -> Result<()> {
    browser.eval("document.querySelector('#flame').focus(); true")?;
    for key in ["ArrowDown", "Enter"] {
        browser.press(key)?;
    }
    browser.until("document.querySelector('#flame').dataset.inside !== ''")?;
    browser.press("Escape")?;
    browser.until("document.querySelector('#flame').dataset.inside === ''")
}

/// Sorts by two columns and filters.
fn table(browser: &mut devtools::Browser) -> Result<()> {
    let column = |n: u32| {
        format!(
            "[...document.querySelectorAll('#names tbody tr')].map(row => {{ const cell = row.cells[{n}]; return cell.dataset.by === \
             undefined ? cell.textContent : Number(cell.dataset.by); }})"
        )
    };
    for (n, falling) in [(4_u32, true), (4, false), (0, false)] {
        browser.eval(&format!("document.querySelectorAll('#names th button')[{n}].click(); true"))?;
        let values = browser.eval(&column(n))?;
        let values = values.as_array().context("no column")?;
        let ordered = values.windows(2).all(|pair| match pair {
            [a, b] => in_order(a, b, falling),
            _ => true,
        });
        ensure!(ordered && !values.is_empty(), "column {n}: {values:?}");
        let sorted = browser
            .eval(&format!("document.querySelectorAll('#names th')[{n}].getAttribute('aria-sort')"))?;
        ensure!(sorted == json!(if falling { "descending" } else { "ascending" }), "{sorted}");
    }
    let filter = "const field = document.querySelector('input[data-filter=names]'); \
                  field.value = document.querySelector('#names tbody td').textContent.slice(0, 5); \
                  field.dispatchEvent(new Event('input')); \
                  const shown = [...document.querySelectorAll('#names tbody tr')].filter(r => !r.hidden).length; \
                  field.value = 'no such name at all'; field.dispatchEvent(new Event('input')); \
                  const none = [...document.querySelectorAll('#names tbody tr')].filter(r => !r.hidden).length; \
                  field.value = ''; field.dispatchEvent(new Event('input')); [shown, none]";
    let counts = browser
        .eval(&format!("(() => {{ {} }})()", filter.replace("[shown, none]", "return [shown, none];")))?;
    ensure!(counts[0].as_u64() >= Some(1) && counts[1] == json!(0), "filter: {counts}");
    browser.eval("document.querySelectorAll('#names th button')[2].click(); true")?;
    Ok(())
}

fn in_order(a: &Value, b: &Value, falling: bool) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) if falling => a >= b,
        (Some(a), Some(b)) => a <= b,
        // Texts are in the order of the reader's language, which is the browser's business.
        _ => true,
    }
}

/// Contrast of text to background: at least 4.5 to 1, as WCAG 2.1 requires for small text.
fn contrast(browser: &mut devtools::Browser, look: &str) -> Result<()> {
    let script = "(() => { const style = getComputedStyle(document.documentElement); \
        const light = (name) => { const text = style.getPropertyValue('--' + name).trim().slice(1); \
          const full = text.length === 3 ? [...text].map(c => c + c).join('') : text; \
          const [r, g, b] = [0, 2, 4].map(i => { const c = parseInt(full.slice(i, i + 2), 16) / 255; \
            return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
        const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); }; \
        const pairs = []; for (const ground of ['back', 'panel']) for (const ink of ['text', 'soft', 'good', 'care', 'bad', 'focus']) \
          pairs.push([ink, ground]); for (const kind of ['cpu', 'gpu', 'transfer', 'wait', 'overhead']) pairs.push(['back', kind]); \
        return pairs.map(([a, b]) => [a + ' on ' + b, ratio(a, b)]).filter(([, r]) => r < 4.5); })()";
    let weak = browser.eval(script)?;
    ensure!(weak.as_array().is_some_and(Vec::is_empty), "{look}: too little contrast: {weak}");
    Ok(())
}

/// A synthetic trace of threads and a device, with an XSS probe, memory, decisions and events.
fn synthetic(spans: u64) -> Value {
    let names = [
        "step",
        "load",
        "compute",
        "passes",
        "upload",
        "wait for the device",
        HOSTILE,
        "out of memory: split (less at a time)",
        "memory clean-up",
        "memory/used/Example GPU",
        "memory/budget/Example GPU",
        "route/matmul/Example GPU/predicted to be faster/runs",
        "route/matmul/Example GPU/predicted to be faster/predicted_ns",
        "route/matmul/Example GPU/predicted to be faster/measured_ns",
        "bytes uploaded",
        "bytes uploaded again",
    ];
    let mut list: Vec<Value> = Vec::new();
    let kinds = ["cpu", "cpu", "cpu", "gpu", "transfer", "wait", "cpu"];
    let (threads, mut seed) = (4_u64, 1_u64);
    let mut random = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most.max(1)
    };
    let each = spans / (threads + 1) / 4;
    for track in 0..threads {
        let mut now = random(5_000);
        for _ in 0..each {
            let parts: Vec<u64> = (0..3).map(|_| 500 + random(90_000)).collect();
            let whole: u64 = parts.iter().sum::<u64>() + 900;
            list.push(json!({"name": 0, "track": track, "category": "cpu", "depth": 0, "start_ns": now, "duration_ns": whole}));
            let mut at = now + 100;
            for long in parts {
                let name = [1, 2, 4, 5, 6][usize::try_from(random(5)).unwrap_or(0)];
                let category = kinds.get(name).copied().unwrap_or("cpu");
                let mut span = json!({"name": name, "track": track, "category": category, "depth": 1, "start_ns": at, "duration_ns": long});
                if name == 4 {
                    span["bytes"] = json!(long * 8);
                }
                list.push(span);
                at += long + 200;
            }
            now += whole + random(20_000);
        }
    }
    let mut now = 0;
    for _ in 0..each * 4 {
        let long = 1_000 + random(60_000);
        list.push(json!({"name": 3, "track": threads, "category": "gpu", "depth": 0, "start_ns": now, "duration_ns": long}));
        now += long + random(20_000);
    }
    for at in [3, 5] {
        list.push(json!({"name": 7, "track": threads + 1, "category": "overhead", "depth": 0, "start_ns": now / at, "duration_ns": 0}));
        list.push(json!({"name": 8, "track": 0, "category": "overhead", "depth": 2, "start_ns": now / at, "duration_ns": 900, "bytes": 64 << 20}));
    }
    let samples: Vec<Value> = (0..400)
        .map(|i| json!([now / 400 * i, 1e9 * (1.0 + (i as f64 / 23.0).sin() * 0.5 + i as f64 / 700.0)]))
        .collect();
    let track = |id: u64, kind: &str, name: &str| json!({"id": id, "kind": kind, "name": name, "dropped": 0});
    let mut tracks: Vec<Value> =
        (0..threads).map(|i| track(i, "thread", &format!("worker {i} <b>"))).collect();
    tracks.push(track(1 << 30, "device", "Example GPU"));
    tracks.push(track((1 << 30) + 1, "device", "recovery"));
    let counter = |name: u64, value: u64| json!({"name": name, "value": value, "samples": [[now, value]]});
    json!({
        "version": 1, "clock": {"source": "instant", "ticks_per_second": 1e9, "reason": "made by a test"},
        "process": {"pid": 1, "os": "linux", "arch": "x86_64"}, "taken_ns": now, "dropped": 0, "names": names, "tracks": tracks,
        "spans": list,
        "counters": [counter(11, 20), counter(12, 4_000_000), counter(13, 12_000_000), counter(14, 1 << 30), counter(15, 700 << 20)],
        "gauges": [
            {"name": 9, "value": 1.1e9, "least": 5e8, "most": 2.05e9, "samples": samples},
            {"name": 10, "value": 2.2e9, "least": 2.2e9, "most": 2.2e9, "samples": [[0, 2.2e9]]},
        ],
        "recent": [], "recent_missed": 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synthetic_trace_has_the_requested_size() {
        let trace = synthetic(2_000);
        let spans = trace["spans"].as_array().unwrap();
        assert!((1_900..=2_010).contains(&spans.len()), "{}", spans.len());
        assert!(in_order(&json!(1), &json!(2), false) && !in_order(&json!(1), &json!(2), true));
    }
}
