//! Candlestick charts in SVG, PNG and HTML: contents, aggregation, hostile values and names, themes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod support;

use gpuforge_chart::{
    Chart, ChartSeries, Mark, OhlcView, PanePlacement, Panel, Scene, Theme, ThemeColor, TimeAxis, scene::Item,
};
use proptest::prelude::*;
use support::{json, page_data, self_contained, well_formed};

const NAN: f64 = f64::NAN;
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;
const NEW_YEAR_2024: i64 = 1_704_067_200;

/// Owned columns behind an [`OhlcView`]; times in epoch seconds.
#[derive(Debug, Clone, Default)]
struct Bars {
    symbol: &'static str,
    time: Vec<i64>,
    open: Vec<f64>,
    high: Vec<f64>,
    low: Vec<f64>,
    close: Vec<f64>,
    volume: Vec<f64>,
}

impl Bars {
    fn axis(&self) -> TimeAxis {
        self.zoned_axis(None)
    }

    fn zoned_axis(&self, zone: Option<String>) -> TimeAxis {
        TimeAxis::calendar(self.time.iter().map(|t| *t as f64).collect(), zone)
    }

    fn view<'a>(&'a self, time: &'a TimeAxis) -> OhlcView<'a> {
        let Bars { open, high, low, close, volume, .. } = self;
        OhlcView { time, open, high, low, close, volume }
    }

    fn chart<'a>(&'a self, time: &'a TimeAxis) -> Chart<'a> {
        Chart::new(self.symbol, self.view(time))
    }
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
    let mut bars = Bars { symbol: "ACME", ..Bars::default() };
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

fn chart<'a>(time: &'a TimeAxis, bars: &'a Bars, columns: &'a Columns) -> Chart<'a> {
    let overlays = vec![
        ChartSeries::new("sma_20", &columns.sma),
        ChartSeries::new("sma_50", &columns.slow),
        ChartSeries::new("stop", &columns.stops).mark(Mark::Dots),
    ];
    let rsi = Panel {
        title: "rsi_14".to_owned(),
        series: vec![ChartSeries::new("rsi_14", &columns.rsi)],
        levels: vec![30.0, 70.0],
        band: Some((30.0, 70.0)),
        bounds: Some((0.0, 100.0)),
    };
    let macd = Panel {
        title: "MACD".to_owned(),
        series: vec![
            ChartSeries::new("macd_12_26_9", &columns.macd),
            ChartSeries::new("signal", &columns.signal),
            ChartSeries::new("hist", &columns.rest).mark(Mark::Histogram),
        ],
        levels: vec![0.0],
        ..Panel::default()
    };
    Chart { overlays, panels: vec![rsi, macd], ..bars.chart(time) }
}

/// All items, clipped ones too.
fn flat(items: &[Item]) -> Vec<&Item> {
    items
        .iter()
        .flat_map(|item| match item {
            Item::Clip { items, .. } => flat(items),
            other => vec![other],
        })
        .collect()
}

fn lines_of(scene: &Scene, wanted: ThemeColor) -> Vec<&Vec<(f64, f64)>> {
    // Lines outside a clip are legend samples.
    let of = |item: &&Item| matches!(item, Item::Polylines { color, .. } if *color == wanted);
    let inside: Vec<&Item> = scene
        .items
        .iter()
        .filter_map(|i| if let Item::Clip { items, .. } = i { Some(flat(items)) } else { None })
        .flatten()
        .collect();
    let lines = inside.into_iter().filter(of).flat_map(|i| match i {
        Item::Polylines { lines, .. } => lines.iter().collect(),
        _ => Vec::new(),
    });
    lines.collect()
}

fn bodies(scene: &Scene) -> usize {
    let candle = |item: &&Item| match item {
        Item::Rects { fill, stroke, .. } => {
            *stroke == Some(ThemeColor::Up) || matches!(fill, ThemeColor::Down | ThemeColor::Up)
        }
        _ => false,
    };
    let inside = scene.items.iter().filter(|i| matches!(i, Item::Clip { .. }));
    let all: Vec<&Item> = inside.flat_map(|i| flat(std::slice::from_ref(i))).filter(candle).collect();
    all.iter().map(|i| if let Item::Rects { rects, .. } = i { rects.len() } else { 0 }).sum()
}

fn texts(scene: &Scene) -> Vec<String> {
    let text = |item: &Item| if let Item::Text { text, .. } = item { Some(text.clone()) } else { None };
    flat(&scene.items).into_iter().filter_map(text).collect()
}

/// Invariants of any chart.
fn check(chart: &Chart<'_>, name: &str) {
    let scene = chart.scene();
    let sane = |v: f64| v.is_finite() && v.abs() < 1e6;
    for item in flat(&scene.items) {
        match item {
            Item::Rects { rects, .. } => {
                assert!(rects.iter().all(|a| [a.x, a.y, a.width, a.height].into_iter().all(sane)), "{name}");
                assert!(rects.iter().all(|a| a.width >= 0.0 && a.height >= 0.0), "{name}: {rects:?}");
            }
            Item::Polylines { lines, .. } => {
                assert!(lines.iter().flatten().all(|p| sane(p.0) && sane(p.1)), "{name}");
                assert!(lines.iter().all(|l| l.len() >= 2), "{name}: a line has two ends");
            }
            Item::Text { at, .. } => assert!(sane(at.0) && sane(at.1), "{name}"),
            Item::Clip { .. } => {}
        }
    }
    let svg = chart.svg();
    well_formed(&svg).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
    self_contained(&svg, name);
    let html = chart.html();
    self_contained(&html, name);
    assert_eq!(html.matches("</script").count(), 2, "{name}");
    assert_eq!(html.matches("<script").count(), 2, "{name}");
    json(page_data(&html)).unwrap_or_else(|e| panic!("{name}: {e}"));
    // Small: painting without optimisation takes its time.
    let png = chart.png(0.25).unwrap();
    let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
    assert_eq!(
        (pixels.width(), pixels.height()),
        ((scene.width * 0.25).round() as u32, (scene.height * 0.25).round() as u32),
        "{name}"
    );
}

/// To look at the output: set `FORGE_CHART_DIR` to a directory.
#[test]
fn every_format_renders() {
    let bars = walk(240);
    let time = bars.axis();
    let columns = columns(&bars);
    let chart = chart(&time, &bars, &columns);
    check(&chart, "a usual chart");
    assert!(chart.png(1.0).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    let Some(directory) = std::env::var_os("FORGE_CHART_DIR").map(std::path::PathBuf::from) else { return };
    let many = walk(100_000);
    let more = self::columns(&many);
    let many_times = many.axis();
    let large = self::chart(&many_times, &many, &more);
    let small = Chart { size: (480, 700), theme: Theme::Dark, ..chart.clone() };
    for (name, chart) in [("chart", chart), ("large", large), ("small", small)] {
        std::fs::write(directory.join(format!("{name}.svg")), chart.svg()).unwrap();
        std::fs::write(directory.join(format!("{name}.html")), chart.html()).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), chart.png(2.0).unwrap()).unwrap();
    }
}

#[test]
fn bars_are_aggregated_only_beyond_the_width() {
    let few = walk(200);
    let scene = few.chart(&few.axis()).scene();
    assert_eq!(bodies(&scene), 200);
    assert!(texts(&scene).contains(&"2024-01-02 09:30 to 2024-01-02 12:49, 200 bars".to_owned()));
    let mut many = walk(50_000);
    // A spike of one bar must be seen.
    many.high[31_234] = 500.0;
    let scene = many.chart(&many.axis()).scene();
    assert!((200..=300).contains(&bodies(&scene)), "{}", bodies(&scene));
    let top = lines_of(&scene, ThemeColor::Up).into_iter().chain(lines_of(&scene, ThemeColor::Down));
    let tops: Vec<f64> = top.map(|wick| wick[0].1).collect();
    let highest = tops.iter().copied().fold(f64::MAX, f64::min);
    assert_eq!(tops.iter().filter(|t| **t < highest + 50.0).count(), 1, "one spike");
    let said = texts(&scene).into_iter().find(|t| t.contains(" bars, 1 candle = ")).unwrap();
    assert!(said.contains("50000 bars, 1 candle = 179 bars"), "{said}");
}

#[test]
fn aggregation_is_stated_in_every_legend() {
    let bars = walk(700);
    let time = bars.axis();
    let chart = Chart { size: (800, 600), ..bars.chart(&time) };
    assert_eq!((chart.max_candles(), chart.aggregation().bars_per_candle), (180, 4));
    assert_eq!(chart.aggregation().seconds, Some(240.0), "bars of a minute");
    let said = texts(&chart.scene());
    assert!(said.iter().any(|t| t.ends_with("700 bars, 1 candle = 4 bars (4 min)")), "{said:?}");
    assert!(said.contains(&"Price: 1 candle = 4 bars (4 min)".to_owned()), "{said:?}");
    assert!(said.contains(&"Volume: sums of 4 bars".to_owned()), "{said:?}");
    assert!(chart.scene().description.contains("1 candle = 4 bars (4 min)"));
    assert!(chart.html().contains("\"step\":60,"), "the page states it for its window");
    // A line keeps every extreme: nothing is aggregated.
    let line = Bars { open: vec![], high: vec![], low: vec![], volume: vec![], ..walk(700) };
    let time = line.axis();
    let chart = Chart { size: (800, 600), ..line.chart(&time) };
    assert_eq!(chart.aggregation().bars_per_candle, 1);
    assert!(!texts(&chart.scene()).iter().any(|t| t.contains("1 candle")));
}

#[test]
fn any_name_gives_well_formed_xml() {
    let bars = walk(50);
    let time = bars.axis();
    let hostile = "<a>&\"'\u{0}\u{1b}\u{202e}]]>\u{ffff}";
    let column = bars.close.clone();
    let line = || vec![ChartSeries::new(hostile, &column)];
    let panel = Panel { title: hostile.to_owned(), series: line(), ..Panel::default() };
    for theme in [Theme::Auto, Theme::Light, Theme::Dark] {
        let mut chart = bars.chart(&time);
        (chart.title, chart.overlays, chart.panels, chart.theme) =
            (hostile.to_owned(), line(), vec![panel.clone()], theme);
        let svg = chart.svg();
        let read = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
        let title = read.descendants().find(|n| n.tag_name().name() == "title").and_then(|n| n.text());
        assert_eq!(title, Some("<a>&\"'\u{fffd}\u{fffd}\u{fffd}]]>\u{fffd}"));
    }
}

#[test]
fn missing_values_break_the_line() {
    let bars = walk(100);
    let time = bars.axis();
    let mut column = bars.close.clone();
    column[..10].fill(NAN);
    column[40] = NAN;
    column[60..=61].fill(f64::INFINITY);
    column[63] = NAN;
    let chart = Chart { overlays: vec![ChartSeries::new("holes", &column)], ..bars.chart(&time) };
    let scene = chart.scene();
    let lengths: Vec<usize> = lines_of(&scene, ThemeColor::Line(0)).iter().map(|l| l.len()).collect();
    // 10 to 39, 41 to 59, 62 alone as a short stroke, 64 to 99.
    assert_eq!(lengths, [30, 19, 2, 36]);
    check(&chart, "holes");
}

#[test]
fn axes_levels_and_last_values_are_labelled() {
    let bars = walk(240);
    let time = bars.axis();
    let columns = columns(&bars);
    let scene = chart(&time, &bars, &columns).scene();
    let texts = texts(&scene);
    let last = format!("{:.2}", bars.close[239]);
    for wanted in ["ACME", "Price", "Volume", "sma_20", "rsi_14", "MACD", "30", "50", "10:00", last.as_str()]
    {
        assert!(texts.iter().any(|t| t == wanted), "{wanted} in {texts:?}");
    }
    assert_eq!(texts.iter().filter(|t| *t == "rsi_14").count(), 1, "one name is enough");
    assert!(scene.description.contains("MACD: macd_12_26_9, signal, hist."), "{}", scene.description);
}

#[test]
fn hostile_values_are_drawn_or_skipped() {
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
        let time = bars.axis();
        for size in [(0, 0), (900, 600)] {
            let column: Vec<f64> = bars.close.iter().map(|v| v * 0.5).collect();
            let all = [Mark::Line, Mark::Histogram, Mark::Dots];
            let lines = all.map(|mark| ChartSeries::new("half", &column).mark(mark)).to_vec();
            let panel = Panel { series: lines.clone(), levels: vec![0.0, NAN, 1e300], ..Panel::default() };
            let fixed = Panel { bounds: Some((1.0, 1.0)), band: Some((NAN, 3.0)), ..panel.clone() };
            let empty = Panel { title: "empty".to_owned(), ..Panel::default() };
            let overlays = if *name == "no bars" { Vec::new() } else { lines };
            let panels = vec![panel, fixed, empty];
            let chart = Chart { overlays, panels, size, ..bars.chart(&time) };
            check(&chart, &format!("{name} at {size:?}"));
            check(&Chart { overlays: Vec::new(), panels: Vec::new(), ..chart }, name);
        }
    }
    let said = |bars: &Bars| texts(&bars.chart(&bars.axis()).scene()).join("; ");
    assert!(said(&Bars::default()).contains("no bars") && said(&Bars::default()).contains("no values"));
    assert!(said(&flat(5.0, 1)).contains("2024-01-01, 1 bar"), "{}", said(&flat(5.0, 1)));
    assert!(said(&flat(100.0, 50)).contains("; 100;"), "{}", said(&flat(100.0, 50)));
    let constant = flat(100.0, 50);
    assert_eq!(bodies(&constant.chart(&constant.axis()).scene()), 50);
}

#[test]
fn hostile_names_are_escaped() {
    let bars = Bars { symbol: "<script>alert(1)</script>", ..walk(30) };
    let time = bars.axis();
    let name = "</script><!--\"&'\u{0}\u{1b}\u{2028}\\ ]]>";
    let panel = Panel {
        title: name.to_owned(),
        series: vec![ChartSeries::new("x\u{4e2d}", &bars.close)],
        ..Panel::default()
    };
    let overlays = vec![ChartSeries::new(name, &bars.close)];
    let chart = Chart { overlays, panels: vec![panel], ..bars.chart(&time) };
    check(&chart, "hostile names");
    let (svg, html) = (chart.svg(), chart.html());
    assert!(svg.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !svg.contains("<script"));
    assert!(html.contains("<h1>&lt;script&gt;alert(1)") && html.contains("\\u003c/script\\u003e"));
    let time = bars.zoned_axis(Some("</script>".to_owned()));
    check(&bars.chart(&time), "a hostile zone");
}

#[test]
fn many_panels_grow_the_height_and_line_colors_repeat() {
    let bars = walk(60);
    let time = bars.axis();
    let panel = |n: usize| Panel {
        title: format!("p{n}"),
        series: vec![ChartSeries::new("c", &bars.close)],
        ..Panel::default()
    };
    let overlays =
        (0..40).map(|n| ChartSeries::new(format!("a_rather_long_name_{n}"), &bars.close)).collect();
    let chart =
        Chart { overlays, panels: (0..20).map(panel).collect(), size: (480, 400), ..bars.chart(&time) };
    let scene = chart.scene();
    assert!(scene.height > 2000.0 && scene.width == 480.0, "{} {}", scene.width, scene.height);
    check(&chart, "many panels");
    let dashed = |item: &&Item| matches!(item, Item::Polylines { color: ThemeColor::Line(_), dash, .. } if !dash.is_empty());
    assert!(flat(&scene.items).iter().any(dashed));
}

#[test]
fn themes_choose_the_background() {
    let bars = walk(60);
    let time = bars.axis();
    for (theme, corner) in
        [(Theme::Light, [255, 255, 255]), (Theme::Auto, [255, 255, 255]), (Theme::Dark, [13, 17, 23])]
    {
        let chart = Chart { theme, ..bars.chart(&time) };
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
fn png_refuses_impossible_sizes() {
    let bars = walk(5);
    let time = bars.axis();
    let chart = bars.chart(&time);
    for scale in [0.0, -1.0, NAN, f64::INFINITY, 1e-9, 1e9, 40.0] {
        let error = chart.png(scale).unwrap_err().to_string();
        assert!(error.contains("hint:") && error.contains("1200 x 800"), "{scale}: {error}");
    }
}

#[test]
fn pane_placement_is_guessed_by_value_range() {
    let bars = walk(300);
    let columns = columns(&bars);
    let time = bars.axis();
    let guess = |values: &[f64]| PanePlacement::guess(values, &bars.view(&time));
    assert_eq!([guess(&columns.sma), guess(&columns.stops)], [PanePlacement::Overlay; 2]);
    assert_eq!([guess(&columns.rsi), guess(&columns.macd), guess(&bars.volume)], [PanePlacement::Panel; 3]);
    assert_eq!(guess(&[NAN]), PanePlacement::Overlay);
    assert_eq!(PanePlacement::guess(&[1.0], &OhlcView::new(&time)), PanePlacement::Panel);
    let below = OhlcView { close: &[-40.0, -30.0], ..OhlcView::new(&time) };
    assert_eq!(PanePlacement::guess(&[-59.0, -21.0], &below), PanePlacement::Overlay);
    assert_eq!(PanePlacement::guess(&[-61.0], &below), PanePlacement::Panel);
    assert_eq!(PanePlacement::guess(&[-19.0], &below), PanePlacement::Panel);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_and_any_values_render(
        title in ".*",
        name in ".*",
        close in proptest::collection::vec(proptest::num::f64::ANY, 0..80),
        time in proptest::collection::vec(any::<i64>(), 0..80),
        size in (0u32..1500, 0u32..1000),
    ) {
        let (low, high) = (close.iter().map(|v| v - 1.0).collect(), close.iter().map(|v| v + 1.0).collect());
        let bars = Bars { time, open: close.clone(), high, low, volume: close.clone(), close, ..Bars::default() };
        let axis = bars.axis();
        let overlays = vec![ChartSeries::new(name.clone(), &bars.high)];
        let panels = vec![Panel { title: name, series: vec![ChartSeries::new("x", &bars.low).mark(Mark::Histogram)], ..Panel::default() }];
        check(&Chart { title, overlays, panels, size, ..bars.chart(&axis) }, "any");
    }
}
