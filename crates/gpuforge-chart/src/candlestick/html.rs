//! Interactive HTML page of a chart: the data as JSON, a canvas renderer with zoom and crosshair (`chart.js`,
//! `interaction.js`), and the SVG inside `<noscript>`.

use std::fmt::Write as _;

use super::{
    Chart, Mark, aggregate,
    marks::dash,
    pane::{Pane, PaneSeries, panes},
    time_axis::TimeAxis,
    value_axis::{Range, decimals, decimals_of, drawable},
};
use crate::{
    svg::escape,
    theme::{Theme, ThemeColor},
};

const STYLE: &str = include_str!("chart.css");
/// Arithmetic that runs anywhere (tests run it in node), then the part that needs a browser.
const SCRIPT: [&str; 2] = [include_str!("chart.js"), include_str!("interaction.js")];
const HINT: &str = "wheel: zoom, drag: move, double click: all, names: show or hide; keys: arrows, + and -, shift with arrows: \
                    candle by candle";
/// Series are rounded to this fraction of their range: a thousandth of a pixel on the whole chart, a pixel at thousandfold
/// zoom. Prices are written in full.
const PRECISION: f64 = 1e-7;

pub(super) fn render(chart: &Chart<'_>) -> String {
    let title = escape(&chart.title);
    let drawing = chart.svg();
    let [logic, view] = SCRIPT;
    // The content security policy makes sure that nothing is fetched, whatever is in the data.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';\
         script-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{}{STYLE}</style>\n\
         <main id=\"chart\" tabindex=\"0\" aria-label=\"chart\" hidden>\n<header><h1>{title}</h1><p id=\"says\"></p></header>\n\
         <div id=\"panes\"></div>\n<footer>{HINT}</footer>\n</main>\n<noscript>\n{drawing}</noscript>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{logic}{view}</script>\n</html>\n",
        css_variables(chart.theme),
        data(chart)
    )
}

/// CSS custom properties of the palette.
fn css_variables(theme: Theme) -> String {
    let set = |dark: bool| {
        let colors: String =
            ThemeColor::all().map(|color| format!("--{}:{};", color.name(), color.hex(dark))).collect();
        let scheme = if dark { "dark" } else { "light" };
        format!(":root{{color-scheme:{scheme};{colors}}}\n")
    };
    match theme {
        Theme::Auto => {
            format!("{}@media(prefers-color-scheme:dark){{{}}}\n", set(false), set(true).trim_end())
        }
        Theme::Light => set(false),
        Theme::Dark => set(true),
    }
}

/// The data as JSON.
fn data(chart: &Chart<'_>) -> String {
    let bars = chart.bars;
    let (kind, zone, daily) = match bars.time {
        TimeAxis::Index => ("index", None, false),
        TimeAxis::Integers(_) => ("count", None, false),
        TimeAxis::Calendar { zone, daily, .. } => ("calendar", zone.as_deref().filter(|_| !daily), *daily),
    };
    let digits = |values: &[f64]| decimals_of(values).unwrap_or(6).min(6);
    let mut out = format!(
        "{{\"n\":{},\"clock\":\"{kind}\",\"daily\":{daily},\"zone\":{},\"digits\":{},\"volumeDigits\":{}",
        bars.len(),
        string(zone.unwrap_or_default()),
        digits(bars.close),
        digits(bars.volume).min(2)
    );
    let step = aggregate::bar_interval(bars.time).map_or_else(|| "null".to_owned(), number);
    let _ = write!(out, ",\"step\":{step}");
    times(&mut out, bars.time);
    let columns =
        [("o", bars.open), ("h", bars.high), ("l", bars.low), ("c", bars.close), ("v", bars.volume)];
    for (key, values) in columns.into_iter().filter(|(_, values)| values.iter().any(|v| drawable(*v))) {
        let _ = write!(out, ",\"{key}\":");
        array(&mut out, values, None);
    }
    out.push_str(",\"panes\":[");
    for (n, pane) in panes(chart).iter().enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        self::pane(&mut out, pane);
    }
    out.push_str("]}");
    out
}

/// Times delta-encoded as integers: `per` of them are a second.
fn times(out: &mut String, time: &TimeAxis) {
    let (per, whole): (f64, Vec<i64>) = match time {
        TimeAxis::Index => (1.0, Vec::new()),
        TimeAxis::Integers(values) => (1.0, values.clone()),
        TimeAxis::Calendar { seconds, .. } => {
            let fits = |per: &f64| seconds.iter().all(|s| (s * per).fract() == 0.0);
            let per = [1.0, 1e3].into_iter().find(fits).unwrap_or(1e6);
            (per, seconds.iter().map(|s| (s * per).round() as i64).collect())
        }
    };
    let _ = write!(out, ",\"per\":{per},\"t\":[");
    let mut before = 0_i64;
    for (n, time) in whole.iter().enumerate() {
        let _ = write!(out, "{}{}", if n == 0 { "" } else { "," }, time.wrapping_sub(before));
        before = *time;
    }
    out.push(']');
}

fn pane(out: &mut String, pane: &Pane<'_>) {
    let kind = match pane.series.first() {
        Some(PaneSeries::Candles(_)) => "candles",
        Some(PaneSeries::Volume(_)) => "volume",
        _ => "",
    };
    let pair = |ends: Option<(f64, f64)>| match ends.filter(|(a, b)| drawable(*a) && drawable(*b) && a != b) {
        Some((a, b)) => format!("[{},{}]", number(a.min(b)), number(a.max(b))),
        None => "null".to_owned(),
    };
    let levels: Vec<String> = pane.levels.iter().filter(|v| drawable(**v)).map(|v| number(*v)).collect();
    // A panel with one series of the same name is named once.
    let same_name =
        matches!(pane.series.first(), Some(PaneSeries::Column { name, .. }) if *name == pane.title);
    let _ = write!(
        out,
        "{{\"title\":{},\"kind\":\"{kind}\",\"share\":{},\"least\":{},\"levels\":[{}],\"band\":{},\"bounds\":{},\"lines\":[",
        string(if same_name { "" } else { pane.title }),
        pane.share,
        pane.min_height,
        levels.join(","),
        pair(pane.band),
        pair(pane.bounds)
    );
    let mut comma = "";
    for series in &pane.series {
        let PaneSeries::Column { name, values, mark, color } = series else { continue };
        let mark = match mark {
            Mark::Line => "line",
            Mark::Dots => "dots",
            Mark::Histogram => "bars",
        };
        let range = Range::of(values.iter().copied());
        let span = range.map_or(1.0, |r| r.high - r.low);
        let digits = decimals_of(values).unwrap_or(8).min(decimals(span * 1e-4).min(10));
        let dash: Vec<String> = dash(*color).iter().map(|d| number(*d)).collect();
        let _ = write!(
            out,
            "{comma}{{\"name\":{},\"mark\":\"{mark}\",\"ink\":\"{}\",\"dash\":[{}],\"digits\":{digits},\"v\":",
            string(name),
            color.name(),
            dash.join(",")
        );
        array(out, values, Some(span));
        out.push('}');
        comma = ",";
    }
    out.push_str("]}");
}

/// A JSON array; `null` for values that are not drawable; rounded where a range is given.
fn array(out: &mut String, values: &[f64], span: Option<f64>) {
    let max_decimals = span.map(|span| decimals(span * PRECISION)).filter(|decimals| *decimals < 16);
    out.push('[');
    for (n, value) in values.iter().enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        match max_decimals {
            _ if !drawable(*value) => out.push_str("null"),
            // The shorter of the rounded and the exact number.
            Some(decimals) => {
                let exact = number(*value);
                let rounded = format!("{value:.decimals$}");
                let rounded =
                    if decimals > 0 { rounded.trim_end_matches('0').trim_end_matches('.') } else { &rounded };
                out.push_str(if rounded.len() < exact.len() { rounded } else { &exact });
            }
            None => out.push_str(&number(*value)),
        }
    }
    out.push(']');
}

/// Shortest round-trip text of a number.
fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-5..1e16).contains(&size) { format!("{value:e}") } else { value.to_string() }
}

/// A JSON string that is safe inside `<script>`: nothing in it can close the element.
fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    use super::*;
    use crate::candlestick::{
        CandleAggregation, ChartSeries, OhlcView, Panel, downsample,
        value_axis::{NumberFormat, Ticks},
    };

    /// Output of a program that runs after `chart.js` in node; `None` without node.
    fn script(program: &str) -> Option<Vec<String>> {
        let run = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = run else {
            println!("skipped: no node to run the script of the page");
            return None;
        };
        let text = format!("{}\n{program}", SCRIPT[0]);
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program}");
        Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
    }

    #[test]
    fn page_formats_numbers_like_the_svg() {
        let ranges = [
            (0.0, 1.0),
            (-0.13, 0.31),
            (97.0, 123.0),
            (1e12, 1e12 + 5.0),
            (-5e-9, 3e-9),
            (0.0, 4.2e6),
            (64_000.0, 66_000.0),
            (-3e20, 3e20),
            (99_500.0, 100_400.0),
        ];
        let mut ours = Vec::new();
        let mut program = String::new();
        for (low, high) in ranges {
            let range = Range { low, high };
            let Ticks { step, values } = range.ticks(6);
            let format = NumberFormat::of(range.magnitude(), step);
            ours.push(values.iter().map(|v| format.text(*v)).collect::<Vec<_>>().join(" "));
            let padded = range.padded();
            ours.push(format!("{:.6e} {:.6e}", padded.low, padded.high));
            let _ = write!(
                program,
                "{{ const t = ticks({low}, {high}, 6), f = format({}, t.step); console.log(t.values.map(f).join(' '));\
                 console.log(roomy({low}, {high}).map(v => v.toExponential(6).replace('e+', 'e')).join(' ')); }}",
                range.magnitude()
            );
        }
        let Some(theirs) = script(&program) else { return };
        assert_eq!(theirs, ours);
    }

    #[test]
    fn page_labels_and_downsamples_like_the_svg() {
        for (step, width) in [(60, 700.0), (3_600, 900.0), (86_400, 1200.0), (86_400, 300.0), (1, 500.0)] {
            let time =
                TimeAxis::calendar((0..777).map(|i| (1_704_101_405 + i * step) as f64).collect(), None);
            let wave = |i: i64| if i % 50 == 3 { f64::NAN } else { (i as f64 * 0.7).sin() };
            let close: Vec<f64> = (0..777).map(wave).collect();
            let bars =
                OhlcView { open: &close, high: &close, low: &close, close: &close, ..OhlcView::new(&time) };
            let panel = Panel { series: vec![ChartSeries::new("wave", &close)], ..Panel::default() };
            let chart = Chart { panels: vec![panel], ..Chart::new("", bars) };
            let max = (width / 72.0) as usize;
            let labels = time.labels(777, 1e9, 11.0);
            assert!(labels.len() > 1);
            // Room for all, so that only the choice is compared.
            let labels: Vec<String> =
                labels.iter().take(max).map(|l| format!("{} {} {}", l.bar, l.text, l.bold)).collect();
            let lines = downsample::m4_polylines(&close, 0.31);
            let points: Vec<String> = lines
                .iter()
                .map(|line| line.iter().map(|p| p.0.to_string()).collect::<Vec<_>>().join(" "))
                .collect();
            let candles: Vec<String> = downsample::candles(&bars, 7)
                .iter()
                .map(|c| {
                    format!("{} {} {:.6} {:.6} {:.6} {:.6}", c.from, c.to, c.open, c.high, c.low, c.close)
                })
                .collect();
            let program = format!(
                "const d = unpack({}), all = timeLabels(d, 0, d.n, Math.floor(1e9 / 72)).sort((a, b) => a.bar - b.bar);\
                 console.log(all.slice(0, {max}).map(l => l.bar + ' ' + l.text + ' ' + l.bold).join('; '));\
                 const lines = []; thinLine(d.panes[1].lines[0].v, 0, d.n, 0.31, p => lines.push([p]), p => lines.at(-1).push(p));\
                 console.log(lines.map(l => l.join(' ')).join('; '));\
                 console.log(candles(d, 0, d.n, 7).map(c => [c.from, c.to, ...[c.open, c.high, c.low, c.close].map(v => \
                 v.toFixed(6))].join(' ')).join('; '));console.log(full(d, 0), full(d, 776));\
                 console.log(merged(d, 1) + '|' + merged(d, 13) + '|' + merged(d, 1000));",
                data(&chart)
            );
            let Some(theirs) = script(&program) else { return };
            let full = format!("{} {}", time.full_label(0), time.full_label(776));
            let said = [1, 13, 1000].map(|bars_per_candle| {
                let seconds = Some(step as f64 * bars_per_candle as f64);
                CandleAggregation { bars_per_candle, seconds }.text().unwrap_or_default()
            });
            let want = [labels.join("; "), points.join("; "), candles.join("; "), full, said.join("|")];
            assert_eq!(theirs, want, "{step}");
        }
    }

    #[test]
    fn numbers_are_short_and_strings_cannot_close_the_script() {
        let mut out = String::new();
        array(&mut out, &[1.0, f64::NAN, 0.123_456_789_123, f64::INFINITY, 1e-9, 2e30, 2e300], Some(1.0));
        assert_eq!(out, "[1,null,0.1234568,null,0,2e30,null]");
        let mut exact = String::new();
        array(&mut exact, &[0.123_456_789_123, 1e-9, 1e20, -0.0], None);
        assert_eq!(exact, "[0.123456789123,1e-9,1e20,-0]");
        assert_eq!(string("</script>\"\\\n"), r#""\u003c/script\u003e\"\\\u000a""#);
    }
}
