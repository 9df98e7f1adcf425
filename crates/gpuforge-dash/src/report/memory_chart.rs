//! Device memory chart as SVG: usage over time, pressure bands, clean-ups as lines, with a caption.

use std::fmt::Write as _;

use gpuforge_chart::svg::SvgWriter;

use super::{
    html_page::escape,
    units::{count, percent, size, time},
};
use crate::trace::conventions::{DeviceMemory, PoolCleanup};

/// Maximum steps of the curve.
const MAX_STEPS: usize = 500;
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;
/// Pressure levels as fractions of the budget, as in the runtime.
const BANDS: [(f64, f64, &str); 3] = [(0.6, 0.8, "band1"), (0.8, 0.9, "band2"), (0.9, 1.0, "band3")];
/// Below this fraction of the budget the curve is drawn at its own scale.
const MIN_BUDGET_FRACTION: f64 = 0.25;

/// Figure of one device's memory from `from` to `to`.
pub(super) fn figure(memory: &DeviceMemory, clean_ups: &[PoolCleanup], from: u64, to: u64) -> String {
    let wall = to.saturating_sub(from).max(1) as f64;
    let x = |at: u64| (at.saturating_sub(from) as f64 / wall).clamp(0.0, 1.0) * WIDTH;
    let budget = memory.budget_bytes.filter(|b| memory.peak_bytes >= MIN_BUDGET_FRACTION * b);
    let top = budget.unwrap_or(memory.peak_bytes).max(memory.peak_bytes).max(1.0) * 1.05;
    let y = |bytes: f64| HEIGHT - (bytes / top).clamp(0.0, 1.0) * HEIGHT;
    let mut out = SvgWriter::new();
    out.start("svg").attr("class", "memory").attr("viewBox", format_args!("0 0 {WIDTH} {HEIGHT}"));
    out.attr("preserveAspectRatio", "none").attr("role", "img");
    out.attr("aria-label", format_args!("memory of {} over time", memory.device)).line();
    for (low, high, class) in BANDS {
        if let Some(budget) = budget {
            let (upper, lower) = (y(high * budget), y(low * budget));
            out.start("rect").attr("class", class).attr("x", 0).attr("y", format_args!("{upper:.1}"));
            out.attr("width", WIDTH).attr("height", format_args!("{:.1}", lower - upper)).end().line();
        }
    }
    let steps = steps(&memory.samples, from, to);
    let mut line = String::new();
    for (at, bytes) in steps {
        let _ =
            write!(line, "{}{:.1} V{:.1} ", if line.is_empty() { "M0 160 H" } else { "H" }, x(at), y(bytes));
    }
    if !line.is_empty() {
        let path = format!("{line}H{WIDTH} V{HEIGHT} Z");
        out.start("path").attr("class", "used").attr("d", path).end().line();
    }
    for clean_up in clean_ups {
        let at = format!("{:.1}", x(clean_up.at_ns));
        let freed = clean_up.freed_bytes.map(|b| format!(", freed {}", size(b as f64))).unwrap_or_default();
        let when = time(clean_up.at_ns.saturating_sub(from));
        out.start("line")
            .attr("class", "clean")
            .attr("x1", &at)
            .attr("x2", &at)
            .attr("y1", 0)
            .attr("y2", HEIGHT);
        out.leaf("title", format_args!("clean-up at {when}{freed}")).end().line();
    }
    let caption = caption(memory, clean_ups, budget.is_some());
    format!("<figure><figcaption>{caption}</figcaption>{}</figure>\n", out.finish())
}

fn caption(memory: &DeviceMemory, clean_ups: &[PoolCleanup], bands: bool) -> String {
    let mut out = format!("<b>{}</b>: at most {} in use", escape(&memory.device), size(memory.peak_bytes));
    match memory.budget_bytes {
        Some(budget) => {
            let share = escape(&percent(memory.peak_bytes / budget));
            let _ = write!(out, ", {share} of a budget of {}", size(budget));
            let words = match bands {
                true => "; bands begin at 60, 80 and 90 % of it",
                false => "; far below the levels of pressure, so drawn at its own scale",
            };
            out.push_str(words);
        }
        None => out.push_str("; its budget was not recorded"),
    }
    if !clean_ups.is_empty() {
        let _ = write!(out, "; {} clean-ups, marked by lines", count(clean_ups.len() as u64));
    }
    out
}

/// Maximum of each step; a value holds until the next sample.
fn steps(samples: &[(u64, f64)], from: u64, to: u64) -> Vec<(u64, f64)> {
    let width = (to.saturating_sub(from)).div_ceil(MAX_STEPS as u64).max(1);
    let mut steps: Vec<(u64, f64)> = Vec::new();
    for (at, bytes) in samples.iter().copied().filter(|(_, bytes)| bytes.is_finite()) {
        let column = from + (at.clamp(from, to) - from) / width * width;
        match steps.last_mut() {
            Some((last, most)) if *last == column => *most = most.max(bytes),
            _ => steps.push((column, bytes)),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(peak: f64, samples: &[(u64, f64)]) -> DeviceMemory {
        let device = "a <b>".to_owned();
        DeviceMemory { device, budget_bytes: Some(1000.0), peak_bytes: peak, samples: samples.to_vec() }
    }

    #[test]
    fn bands_are_drawn_when_the_budget_is_in_scale() {
        let cleaned = [PoolCleanup { at_ns: 50, duration_ns: 1, freed_bytes: Some(2048) }];
        let near = figure(&memory(900.0, &[(0, 100.0), (50, 900.0)]), &cleaned, 0, 100);
        assert!(
            near.contains("band3") && near.contains("90 % of a budget") && near.contains("freed 2.00 KiB"),
            "{near}"
        );
        assert!(near.contains("a &lt;b&gt;") && !near.contains("a <b>"), "{near}");
        let far = figure(&memory(10.0, &[(0, 10.0)]), &[], 0, 100);
        assert!(!far.contains("band3") && far.contains("own scale"), "{far}");
    }

    #[test]
    fn any_name_and_a_tiny_share_give_well_formed_xml() {
        let device = "<a>&\"'\u{0}\u{1b}".to_owned();
        let cleaned = [PoolCleanup { at_ns: 50, duration_ns: 1, freed_bytes: Some(2048) }];
        let memory =
            DeviceMemory { device, budget_bytes: Some(1e12), peak_bytes: 10.0, samples: vec![(0, 10.0)] };
        let drawn = figure(&memory, &cleaned, 0, 100);
        roxmltree::Document::parse(&drawn).unwrap_or_else(|e| panic!("{e}: {drawn}"));
        assert!(drawn.contains("&lt;0.1 %"), "{drawn}");
    }

    #[test]
    fn downsampling_keeps_peaks() {
        let samples: Vec<(u64, f64)> =
            (0..100_000).map(|i| (i, if i == 77_777 { 5.0 } else { 1.0 })).collect();
        let steps = steps(&samples, 0, 100_000);
        assert!(steps.len() <= MAX_STEPS && steps.iter().any(|(_, b)| *b == 5.0), "{}", steps.len());
    }
}
