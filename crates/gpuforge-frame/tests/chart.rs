//! Does a chart show what the bars say, in every format, and whatever the bars are?
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use arrow::datatypes::{DataType, TimeUnit};
use gpuforge_frame::bars::{Bars, Column, Key, Layout};
use gpuforge_frame::chart::{Chart, Ink, Line, Mark, Panel, Placement, Scene, Theme, scene::Item};
use proptest::prelude::*;

const NAN: f64 = f64::NAN;
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;
const NEW_YEAR_2024: i64 = 1_704_067_200;

fn layout() -> Layout {
    let time = Column { name: "time".to_owned(), kind: DataType::Timestamp(TimeUnit::Second, None) };
    Layout { time: Some(time), ..Layout::default() }
}

/// Numbers between -1 and 1, the same every time.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A walk of minute bars in sessions, weekdays only.
fn walk(count: usize) -> Bars {
    let mut random = noise(7);
    let mut bars = Bars { symbol: Some(Key::Text("ACME".to_owned())), ..Bars::default() };
    let mut price = 100.0;
    let weekday = |d: &i64| (d + 4).rem_euclid(7) % 6 != 0;
    let minutes = |d: i64| (0..390).map(move |m| d * DAY + 34_200 + m * MINUTE);
    let times = (NEW_YEAR_2024 / DAY + 1..).filter(weekday).flat_map(minutes);
    for time in times.take(count) {
        let open: f64 = price;
        let close = open * (1.0 + 0.0016 * random() + 0.0003 * (time as f64 / 1_700.0).sin());
        let cents = |v: f64| (v * 100.0).round() / 100.0;
        bars.time.push(time);
        bars.open.push(cents(open));
        bars.high.push(cents(open.max(close) * (1.0 + 0.0008 * random().abs())));
        bars.low.push(cents(open.min(close) * (1.0 - 0.0008 * random().abs())));
        bars.close.push(cents(close));
        bars.volume.push((10_000.0 * (1.2 + random())).round());
        price = close;
    }
    bars
}

fn mean(values: &[f64], length: usize) -> Vec<f64> {
    let at = |i: usize| match (i + 1).checked_sub(length) {
        Some(from) => values[from..=i].iter().sum::<f64>() / length as f64,
        None => NAN,
    };
    (0..values.len()).map(at).collect()
}

/// Columns as a user would have them.
struct Columns {
    sma: Vec<f64>,
    slow: Vec<f64>,
    stops: Vec<f64>,
    rsi: Vec<f64>,
    macd: Vec<f64>,
    signal: Vec<f64>,
    rest: Vec<f64>,
}

fn columns(bars: &Bars) -> Columns {
    let (sma, slow) = (mean(&bars.close, 20), mean(&bars.close, 50));
    let change: Vec<f64> =
        (0..bars.close.len()).map(|i| if i == 0 { NAN } else { bars.close[i] - bars.close[i - 1] }).collect();
    let up = mean(&change.iter().map(|c| c.max(0.0)).collect::<Vec<_>>(), 14);
    let all = mean(&change.iter().map(|c| c.abs()).collect::<Vec<_>>(), 14);
    let rsi = up.iter().zip(&all).map(|(u, a)| 100.0 * u / a).collect();
    let macd: Vec<f64> =
        mean(&bars.close, 12).iter().zip(mean(&bars.close, 26)).map(|(a, b)| a - b).collect();
    let filled: Vec<f64> = macd.iter().map(|v| if v.is_nan() { 0.0 } else { *v }).collect();
    let signal = mean(&filled, 9);
    let rest = macd.iter().zip(&signal).map(|(a, b)| a - b).collect();
    let stops = bars.low.iter().zip(&sma).map(|(l, s)| l.min(*s) - 0.15).collect();
    Columns { sma, slow, stops, rsi, macd, signal, rest }
}

fn chart<'a>(layout: &'a Layout, bars: &'a Bars, columns: &'a Columns) -> Chart<'a> {
    let overlays = vec![
        Line::new("sma_20", &columns.sma),
        Line::new("sma_50", &columns.slow),
        Line::new("stop", &columns.stops).mark(Mark::Dots),
    ];
    let rsi = Panel {
        title: "rsi_14".to_owned(),
        lines: vec![Line::new("rsi_14", &columns.rsi)],
        levels: vec![30.0, 70.0],
        band: Some((30.0, 70.0)),
        bounds: Some((0.0, 100.0)),
    };
    let macd = Panel {
        title: "MACD".to_owned(),
        lines: vec![
            Line::new("macd_12_26_9", &columns.macd),
            Line::new("signal", &columns.signal),
            Line::new("hist", &columns.rest).mark(Mark::Histogram),
        ],
        levels: vec![0.0],
        ..Panel::default()
    };
    Chart { overlays, panels: vec![rsi, macd], ..Chart::new(layout, bars) }
}

/// Is this XML: one root, tags that close, quoted attributes, no character that XML forbids?
fn well_formed(text: &str) -> Result<usize, String> {
    let mut open: Vec<&str> = Vec::new();
    let (mut rest, mut count) = (text.trim_end(), 0);
    while let Some(start) = rest.find('<') {
        content(&rest[..start])?;
        let end = rest[start..].find('>').ok_or("a tag does not end")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        count += 1;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            if open.is_empty() && !rest.is_empty() {
                return Err("more than one root".to_owned());
            }
            continue;
        }
        let whole = tag.strip_suffix('/');
        let body = whole.unwrap_or(tag);
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return Err(format!("a tag called {name:?}"));
        }
        attributes_of(attributes)?;
        if whole.is_none() {
            open.push(name);
        }
    }
    if open.is_empty() && rest.is_empty() { Ok(count) } else { Err(format!("left open: {open:?} {rest:?}")) }
}

fn attributes_of(mut text: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    while !text.is_empty() {
        let (name, after) = text.split_once("=\"").ok_or_else(|| format!("no value: {text:?}"))?;
        let (value, after) = after.split_once('"').ok_or_else(|| format!("no end: {after:?}"))?;
        if seen.contains(&name) || name.contains(' ') {
            return Err(format!("attribute {name:?}"));
        }
        seen.push(name);
        content(value)?;
        text = after.strip_prefix(' ').unwrap_or(after);
    }
    Ok(())
}

fn content(text: &str) -> Result<(), String> {
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\n') {
        return Err(format!("{c:?} is not allowed"));
    }
    let entities = ["&lt;", "&gt;", "&amp;", "&quot;", "&#39;"];
    let loose = text.match_indices('&').find(|(at, _)| !entities.iter().any(|e| text[*at..].starts_with(e)));
    loose.map_or(Ok(()), |(at, _)| Err(format!("a loose & at {at}")))
}

/// All items, those inside others too.
fn flat(items: &[Item]) -> Vec<&Item> {
    items
        .iter()
        .flat_map(|item| match item {
            Item::Inside { items, .. } => flat(items),
            other => vec![other],
        })
        .collect()
}

fn lines_of(scene: &Scene, wanted: Ink) -> Vec<&Vec<(f64, f64)>> {
    // The first of a colour is the piece in the legend.
    let of = |item: &&Item| matches!(item, Item::Lines { ink, .. } if *ink == wanted);
    let inside: Vec<&Item> = scene
        .items
        .iter()
        .filter_map(|i| if let Item::Inside { items, .. } = i { Some(flat(items)) } else { None })
        .flatten()
        .collect();
    let lines = inside.into_iter().filter(of).flat_map(|i| match i {
        Item::Lines { lines, .. } => lines.iter().collect(),
        _ => Vec::new(),
    });
    lines.collect()
}

fn bodies(scene: &Scene) -> usize {
    let candle = |item: &&Item| match item {
        Item::Rects { fill, edge, .. } => *edge == Some(Ink::Up) || matches!(fill, Ink::Down | Ink::Up),
        _ => false,
    };
    let inside = scene.items.iter().filter(|i| matches!(i, Item::Inside { .. }));
    let all: Vec<&Item> = inside.flat_map(|i| flat(std::slice::from_ref(i))).filter(candle).collect();
    all.iter().map(|i| if let Item::Rects { areas, .. } = i { areas.len() } else { 0 }).sum()
}

fn texts(scene: &Scene) -> Vec<String> {
    let text = |item: &Item| if let Item::Text { text, .. } = item { Some(text.clone()) } else { None };
    flat(&scene.items).into_iter().filter_map(text).collect()
}

/// Everything that must hold for any chart.
fn check(chart: &Chart<'_>, name: &str) {
    let scene = chart.scene();
    let sane = |v: f64| v.is_finite() && v.abs() < 1e6;
    for item in flat(&scene.items) {
        match item {
            Item::Rects { areas, .. } => {
                assert!(areas.iter().all(|a| [a.x, a.y, a.width, a.height].into_iter().all(sane)), "{name}");
                assert!(areas.iter().all(|a| a.width >= 0.0 && a.height >= 0.0), "{name}: {areas:?}");
            }
            Item::Lines { lines, .. } => {
                assert!(lines.iter().flatten().all(|p| sane(p.0) && sane(p.1)), "{name}");
                assert!(lines.iter().all(|l| l.len() >= 2), "{name}: a line has two ends");
            }
            Item::Text { at, .. } => assert!(sane(at.0) && sane(at.1), "{name}"),
            Item::Inside { .. } => {}
        }
    }
    let svg = chart.svg();
    well_formed(&svg).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    alone(&svg, name);
    let html = chart.html();
    alone(&html, name);
    assert_eq!(html.matches("</script").count(), 2, "{name}");
    assert_eq!(html.matches("<script").count(), 2, "{name}");
    json(data(&html)).unwrap_or_else(|e| panic!("{name}: {e}"));
    // Small: painting without optimisation takes its time.
    let png = chart.png(0.25).unwrap();
    let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
    assert_eq!(
        (pixels.width(), pixels.height()),
        ((scene.width * 0.25).round() as u32, (scene.height * 0.25).round() as u32),
        "{name}"
    );
}

/// Nothing is asked for from elsewhere.
fn alone(text: &str, name: &str) {
    let text = text.replace("http://www.w3.org/2000/svg", "");
    let reach = [
        "http:",
        "https:",
        "src=",
        "href",
        "url(",
        "@import",
        "fetch(",
        "XMLHttp",
        "WebSocket",
        "EventSource",
    ];
    for way in reach.into_iter().chain(["import(", "sendBeacon", "eval("]) {
        assert!(!text.contains(way), "{name}: {way}");
    }
}

fn data(html: &str) -> &str {
    html.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0
}

/// Reads one JSON value; what is left must be nothing.
fn json(text: &str) -> Result<(), String> {
    let rest = value(text)?;
    if rest.is_empty() { Ok(()) } else { Err(format!("after the end: {:.40}", rest)) }
}

fn value(text: &str) -> Result<&str, String> {
    let fail = || Err(format!("not a value: {:.40}", text));
    for word in ["null", "true", "false"] {
        if let Some(rest) = text.strip_prefix(word) {
            return Ok(rest);
        }
    }
    match text.chars().next() {
        Some('"') => quoted(text),
        Some('[') => several(&text[1..], ']', value),
        Some('{') => several(&text[1..], '}', |t| value(quoted(t)?.strip_prefix(':').ok_or("no colon")?)),
        Some('-' | '0'..='9') => {
            let end =
                text.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | '0'..='9')).unwrap_or(text.len());
            let number: f64 = text[..end].parse().map_err(|_| format!("not a number: {}", &text[..end]))?;
            if number.is_finite() && !text[..end].ends_with('.') { Ok(&text[end..]) } else { fail() }
        }
        _ => fail(),
    }
}

fn quoted(text: &str) -> Result<&str, String> {
    let body = text.strip_prefix('"').ok_or("no string")?;
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Ok(&body[at + 1..]),
            c if c.is_control() || c == '<' => return Err(format!("{c:?} inside a string")),
            _ => {}
        }
    }
    Err("a string does not end".to_owned())
}

fn several<'a>(
    mut text: &'a str,
    end: char,
    one: impl Fn(&'a str) -> Result<&'a str, String>,
) -> Result<&'a str, String> {
    if let Some(rest) = text.strip_prefix(end) {
        return Ok(rest);
    }
    loop {
        text = one(text)?;
        if let Some(rest) = text.strip_prefix(end) {
            return Ok(rest);
        }
        text = text.strip_prefix(',').ok_or_else(|| format!("no comma: {:.40}", text))?;
    }
}

/// To look at: set `FORGE_CHART_DIR` to a folder.
#[test]
fn every_format_is_written() {
    let (layout, bars) = (layout(), walk(240));
    let columns = columns(&bars);
    let chart = chart(&layout, &bars, &columns);
    check(&chart, "a usual chart");
    assert!(chart.png(1.0).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    let Some(folder) = std::env::var_os("FORGE_CHART_DIR").map(std::path::PathBuf::from) else { return };
    let many = walk(100_000);
    let more = self::columns(&many);
    let large = self::chart(&layout, &many, &more);
    let small = Chart { size: (480, 700), theme: Theme::Dark, ..chart.clone() };
    for (name, chart) in [("chart", chart), ("large", large), ("small", small)] {
        std::fs::write(folder.join(format!("{name}.svg")), chart.svg()).unwrap();
        std::fs::write(folder.join(format!("{name}.html")), chart.html()).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), chart.png(2.0).unwrap()).unwrap();
    }
}

#[test]
fn bars_that_fit_are_drawn_one_by_one_and_others_are_joined() {
    let layout = layout();
    let few = walk(200);
    let scene = Chart::new(&layout, &few).scene();
    assert_eq!(bodies(&scene), 200);
    assert!(texts(&scene).contains(&"2024-01-02 09:30 to 2024-01-02 12:49, 200 bars".to_owned()));
    let mut many = walk(50_000);
    // A spike of one bar must be seen.
    many.high[31_234] = 500.0;
    let scene = Chart::new(&layout, &many).scene();
    assert!((200..=300).contains(&bodies(&scene)), "{}", bodies(&scene));
    let top = lines_of(&scene, Ink::Up).into_iter().chain(lines_of(&scene, Ink::Down));
    let tops: Vec<f64> = top.map(|wick| wick[0].1).collect();
    let highest = tops.iter().copied().fold(f64::MAX, f64::min);
    assert_eq!(tops.iter().filter(|t| **t < highest + 50.0).count(), 1, "one spike");
    let said = texts(&scene).into_iter().find(|t| t.contains(" bars, 1 candle = ")).unwrap();
    assert!(said.contains("50000 bars, 1 candle = 179 bars"), "{said}");
}

#[test]
fn a_merged_candle_is_said_wherever_the_chart_is_looked_at() {
    let (layout, bars) = (layout(), walk(700));
    let chart = Chart { size: (800, 600), ..Chart::new(&layout, &bars) };
    assert_eq!((chart.most_candles(), chart.merged().bars_per_candle), (180, 4));
    assert_eq!(chart.merged().seconds, Some(240.0), "bars of a minute");
    let said = texts(&chart.scene());
    assert!(said.iter().any(|t| t.ends_with("700 bars, 1 candle = 4 bars (4 min)")), "{said:?}");
    assert!(said.contains(&"Price: 1 candle = 4 bars (4 min)".to_owned()), "{said:?}");
    assert!(said.contains(&"Volume: sums of 4 bars".to_owned()), "{said:?}");
    assert!(chart.scene().says.contains("1 candle = 4 bars (4 min)"));
    assert!(chart.html().contains("\"step\":60,"), "the page says it by its window");
    // A line keeps every extreme: nothing is merged.
    let line = Bars { open: vec![], high: vec![], low: vec![], volume: vec![], ..walk(700) };
    let chart = Chart { size: (800, 600), ..Chart::new(&layout, &line) };
    assert_eq!(chart.merged().bars_per_candle, 1);
    assert!(!texts(&chart.scene()).iter().any(|t| t.contains("1 candle")));
}

#[test]
fn any_name_gives_well_formed_xml() {
    let (layout, bars) = (layout(), walk(50));
    let hostile = "<a>&\"'\u{0}\u{1b}\u{202e}]]>\u{ffff}";
    let column = bars.close.clone();
    let line = || vec![Line::new(hostile, &column)];
    let panel = Panel { title: hostile.to_owned(), lines: line(), ..Panel::default() };
    for theme in [Theme::Auto, Theme::Light, Theme::Dark] {
        let mut chart = Chart::new(&layout, &bars);
        (chart.title, chart.overlays, chart.panels, chart.theme) =
            (hostile.to_owned(), line(), vec![panel.clone()], theme);
        let svg = chart.svg();
        let read = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
        let title = read.descendants().find(|n| n.tag_name().name() == "title").and_then(|n| n.text());
        assert_eq!(title, Some("<a>&\"'\u{fffd}\u{fffd}\u{fffd}]]>\u{fffd}"));
    }
}

#[test]
fn a_missing_value_breaks_the_line() {
    let (layout, bars) = (layout(), walk(100));
    let mut column = bars.close.clone();
    column[..10].fill(NAN);
    column[40] = NAN;
    column[60..=61].fill(f64::INFINITY);
    column[63] = NAN;
    let chart = Chart { overlays: vec![Line::new("holes", &column)], ..Chart::new(&layout, &bars) };
    let scene = chart.scene();
    let lengths: Vec<usize> = lines_of(&scene, Ink::Line(0)).iter().map(|l| l.len()).collect();
    // 10 to 39, 41 to 59, 62 alone as a short stroke, 64 to 99.
    assert_eq!(lengths, [30, 19, 2, 36]);
    check(&chart, "holes");
}

#[test]
fn axes_levels_and_last_values_are_labelled() {
    let (layout, bars) = (layout(), walk(240));
    let columns = columns(&bars);
    let scene = chart(&layout, &bars, &columns).scene();
    let texts = texts(&scene);
    let last = format!("{:.2}", bars.close[239]);
    for wanted in ["ACME", "Price", "Volume", "sma_20", "rsi_14", "MACD", "30", "50", "10:00", last.as_str()]
    {
        assert!(texts.iter().any(|t| t == wanted), "{wanted} in {texts:?}");
    }
    assert_eq!(texts.iter().filter(|t| *t == "rsi_14").count(), 1, "one name is enough");
    assert!(scene.says.contains("MACD: macd_12_26_9, signal, hist."), "{}", scene.says);
}

#[test]
fn hostile_bars_are_drawn_sensibly() {
    let layout = layout();
    let flat = |value: f64, count: usize| Bars {
        time: (0..count as i64).map(|i| NEW_YEAR_2024 + i * DAY).collect(),
        open: vec![value; count],
        high: vec![value; count],
        low: vec![value; count],
        close: vec![value; count],
        volume: vec![value.abs(); count],
        ..Bars::default()
    };
    let scaled = |by: f64, shift: f64| {
        let mut bars = walk(300);
        for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
            column.iter_mut().for_each(|v| *v = *v * by + shift);
        }
        bars
    };
    let mut wild = scaled(1.0, 0.0);
    wild.high[5] = f64::INFINITY;
    wild.low[7] = f64::NEG_INFINITY;
    wild.close[9] = f64::MAX;
    wild.volume[3] = -1.0;
    wild.open.truncate(100);
    wild.time.truncate(50);
    let mut times = scaled(1.0, 0.0);
    times.time.reverse();
    times.time[4] = i64::MAX;
    times.time[5] = i64::MIN;
    let close_only = Bars { close: walk(50).close, ..Bars::default() };
    let volume_only = Bars { volume: vec![0.0, 5.0, NAN], ..Bars::default() };
    let cases = [
        ("no bars", Bars::default()),
        ("one bar", flat(5.0, 1)),
        ("constant", flat(100.0, 50)),
        ("zero", flat(0.0, 50)),
        ("all missing", flat(NAN, 50)),
        ("huge", scaled(1e10, 1e12)),
        ("beyond", scaled(1e298, 0.0)),
        ("tiny", scaled(1e-11, 0.0)),
        ("denormal", scaled(1e-318, 0.0)),
        ("negative", scaled(-1.0, 0.0)),
        ("around zero", scaled(1.0, -100.0)),
        ("far from zero", scaled(1e-3, 1e12)),
        ("wild", wild),
        ("times", times),
        ("close only", close_only),
        ("volume only", volume_only),
    ];
    for (name, bars) in &cases {
        for size in [(0, 0), (900, 600)] {
            let column: Vec<f64> = bars.close.iter().map(|v| v * 0.5).collect();
            let all = [Mark::Line, Mark::Histogram, Mark::Dots];
            let lines = all.map(|mark| Line::new("half", &column).mark(mark)).to_vec();
            let panel = Panel { lines: lines.clone(), levels: vec![0.0, NAN, 1e300], ..Panel::default() };
            let fixed = Panel { bounds: Some((1.0, 1.0)), band: Some((NAN, 3.0)), ..panel.clone() };
            let empty = Panel { title: "empty".to_owned(), ..Panel::default() };
            let overlays = if *name == "no bars" { Vec::new() } else { lines };
            let panels = vec![panel, fixed, empty];
            let chart = Chart { overlays, panels, size, ..Chart::new(&layout, bars) };
            check(&chart, &format!("{name} at {size:?}"));
            check(&Chart { overlays: Vec::new(), panels: Vec::new(), ..chart }, name);
        }
    }
    let said = |bars: &Bars| texts(&Chart::new(&layout, bars).scene()).join("; ");
    assert!(said(&Bars::default()).contains("no bars") && said(&Bars::default()).contains("no values"));
    assert!(said(&flat(5.0, 1)).contains("2024-01-01, 1 bar"), "{}", said(&flat(5.0, 1)));
    assert!(said(&flat(100.0, 50)).contains("; 100;"), "{}", said(&flat(100.0, 50)));
    assert_eq!(bodies(&Chart::new(&layout, &flat(100.0, 50)).scene()), 50);
}

#[test]
fn hostile_names_stay_text() {
    let bars = Bars { symbol: Some(Key::Text("<script>alert(1)</script>".to_owned())), ..walk(30) };
    let layout = layout();
    let name = "</script><!--\"&'\u{0}\u{1b}\u{2028}\\ ]]>";
    let panel = Panel {
        title: name.to_owned(),
        lines: vec![Line::new("x\u{4e2d}", &bars.close)],
        ..Panel::default()
    };
    let overlays = vec![Line::new(name, &bars.close)];
    let chart = Chart { overlays, panels: vec![panel], ..Chart::new(&layout, &bars) };
    check(&chart, "hostile names");
    let (svg, html) = (chart.svg(), chart.html());
    assert!(svg.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !svg.contains("<script"));
    assert!(html.contains("<h1>&lt;script&gt;alert(1)") && html.contains("\\u003c/script\\u003e"));
    let zone = DataType::Timestamp(TimeUnit::Second, Some("</script>".into()));
    let layout = Layout { time: Some(Column { name: "t".to_owned(), kind: zone }), ..Layout::default() };
    check(&Chart::new(&layout, &bars), "a hostile zone");
}

#[test]
fn many_panels_make_it_higher_and_many_lines_repeat_colours() {
    let (layout, bars) = (layout(), walk(60));
    let panel = |n: usize| Panel {
        title: format!("p{n}"),
        lines: vec![Line::new("c", &bars.close)],
        ..Panel::default()
    };
    let overlays = (0..40).map(|n| Line::new(format!("a_rather_long_name_{n}"), &bars.close)).collect();
    let chart = Chart {
        overlays,
        panels: (0..20).map(panel).collect(),
        size: (480, 400),
        ..Chart::new(&layout, &bars)
    };
    let scene = chart.scene();
    assert!(scene.height > 2000.0 && scene.width == 480.0, "{} {}", scene.width, scene.height);
    check(&chart, "many panels");
    let dashed =
        |item: &&Item| matches!(item, Item::Lines { ink: Ink::Line(_), dash, .. } if !dash.is_empty());
    assert!(flat(&scene.items).iter().any(dashed));
}

#[test]
fn themes_choose_the_background() {
    let (layout, bars) = (layout(), walk(60));
    for (theme, corner) in
        [(Theme::Light, [255, 255, 255]), (Theme::Auto, [255, 255, 255]), (Theme::Dark, [13, 17, 23])]
    {
        let chart = Chart { theme, ..Chart::new(&layout, &bars) };
        let pixels = tiny_skia::Pixmap::decode_png(&chart.png(0.5).unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (600, 400));
        let first = pixels.pixel(0, 0).unwrap();
        assert_eq!([first.red(), first.green(), first.blue()], corner, "{theme:?}");
        let other = pixels.pixels().iter().filter(|p| **p != first).count();
        assert!(other > 5_000, "{theme:?}: {other} pixels are drawn on");
        let follows = chart.svg().contains("prefers-color-scheme")
            && chart.html().contains("prefers-color-scheme:dark)");
        assert_eq!(follows, theme == Theme::Auto);
        check(&chart, "a theme");
    }
}

#[test]
fn pictures_that_cannot_be_are_refused() {
    let (layout, bars) = (layout(), walk(5));
    let chart = Chart::new(&layout, &bars);
    for scale in [0.0, -1.0, NAN, f64::INFINITY, 1e-9, 1e9, 40.0] {
        let error = chart.png(scale).unwrap_err().to_string();
        assert!(error.contains("hint:") && error.contains("1200 x 800"), "{scale}: {error}");
    }
}

#[test]
fn columns_are_placed_by_their_range() {
    let bars = walk(300);
    let columns = columns(&bars);
    let guess = |values: &[f64]| Placement::guess(values, &bars);
    assert_eq!([guess(&columns.sma), guess(&columns.stops)], [Placement::Overlay; 2]);
    assert_eq!([guess(&columns.rsi), guess(&columns.macd), guess(&bars.volume)], [Placement::Panel; 3]);
    assert_eq!(guess(&[NAN]), Placement::Overlay);
    assert_eq!(Placement::guess(&[1.0], &Bars::default()), Placement::Panel);
    let below = Bars { close: vec![-40.0, -30.0], ..Bars::default() };
    assert_eq!(Placement::guess(&[-59.0, -21.0], &below), Placement::Overlay);
    assert_eq!(Placement::guess(&[-61.0], &below), Placement::Panel);
    assert_eq!(Placement::guess(&[-19.0], &below), Placement::Panel);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_and_any_numbers_make_a_chart(
        title in ".*",
        name in ".*",
        close in proptest::collection::vec(proptest::num::f64::ANY, 0..80),
        time in proptest::collection::vec(any::<i64>(), 0..80),
        size in (0u32..1500, 0u32..1000),
    ) {
        let (low, high) = (close.iter().map(|v| v - 1.0).collect(), close.iter().map(|v| v + 1.0).collect());
        let bars = Bars { time, open: close.clone(), high, low, volume: close.clone(), close, ..Bars::default() };
        let layout = layout();
        let overlays = vec![Line::new(name.clone(), &bars.high)];
        let panels = vec![Panel { title: name, lines: vec![Line::new("x", &bars.low).mark(Mark::Histogram)], ..Panel::default() }];
        check(&Chart { title, overlays, panels, size, ..Chart::new(&layout, &bars) }, "any");
    }
}
