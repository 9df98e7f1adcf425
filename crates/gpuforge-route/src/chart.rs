//! Crossover chart: predicted time over size per backend, as terminal text and as SVG, with the sizes at which one overtakes the
//! other.

use gpuforge_ops::{
    OpKind, Work,
    registry::{self, OpEntry},
};

use crate::{curve::Curve, model::CostModel};

mod svg;
mod terminal;

pub use svg::svg;
pub use terminal::terminal;

/// Samples per octave when searching for crossovers.
const PER_OCTAVE: u32 = 4;
/// Examples up to this size are built to see what a kind transfers; larger ones are extrapolated.
const MAX_EXAMPLE: usize = 1 << 12;

/// Crossovers named in the summary text.
const MAX_NAMED: usize = 3;

/// Chart of one op kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Name of the kind.
    pub title: String,
    /// Unit of the sizes.
    pub unit: String,
    /// One line per backend, the CPU first.
    pub lines: Vec<CurveLine>,
    /// Crossover points: sizes at which the second backend overtakes the first or falls behind it, ascending.
    pub crossings: Vec<u64>,
    /// Index of the faster line below the first crossover; they alternate above.
    pub first: usize,
}

/// The curve of one backend.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveLine {
    /// Name of the backend.
    pub name: String,
    /// Size and nanoseconds, including transfers of host inputs and results.
    pub points: Vec<(u64, f64)>,
    /// Peak throughput in units per second, without transfers.
    pub peak: f64,
}

impl Panel {
    /// The crossovers in words, with these names for the first two backends.
    pub fn describe(&self, names: [&str; 2]) -> String {
        let faster = |n: usize| names.get((self.first + n) % 2).copied().unwrap_or_default();
        match self.crossings.as_slice() {
            [] if self.lines.len() < 2 => format!("only {}", faster(0)),
            [] => format!("{} at every size", faster(0)),
            all => {
                // More than a few are noise between equals.
                let step = |(i, at): (usize, &u64)| format!(", from {} on {}", count(*at), faster(i + 1));
                let rest: String = all.iter().enumerate().take(MAX_NAMED).map(step).collect();
                let more = if all.len() > MAX_NAMED { ", then by turns" } else { "" };
                format!("{}{rest}{more}", faster(0))
            }
        }
    }

    /// As [`describe`](Self::describe), with the names of the backends.
    pub fn summary(&self) -> String {
        let name = |i: usize| self.lines.get(i).map_or("", |l| l.name.as_str());
        self.describe([name(0), name(1)])
    }
}

/// Crossover points: sizes at which `b` plus transfers becomes faster than `a`, or stops being so, ascending.
pub fn crossings(a: &Curve, b: &Curve, transfers: &dyn Fn(u64) -> f64) -> Vec<u64> {
    let faster = |units: u64| f64::from(b.at(units)) + transfers(units) < f64::from(a.at(units));
    let meet = |pair: &[u64]| {
        let (mut low, mut high) = (*pair.first()?, *pair.last()?);
        let above = faster(high);
        if faster(low) == above {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if faster(middle) == above { high = middle } else { low = middle }
        }
        Some(high)
    };
    grid(&[a, b]).windows(2).filter_map(meet).collect()
}

/// The last of the [`crossings`]: beyond it one backend stays faster. `None` when one is faster everywhere.
pub fn crossover(a: &Curve, b: &Curve, transfers: &dyn Fn(u64) -> f64) -> Option<u64> {
    crossings(a, b, transfers).pop()
}

/// Log-spaced sizes from the smallest to the largest of all curves.
fn grid(curves: &[&Curve]) -> Vec<u64> {
    let ends = |c: &&Curve| Some((c.points().first()?.units, c.points().last()?.units));
    let ends: Vec<(u64, u64)> = curves.iter().filter_map(ends).collect();
    let (Some(first), Some(last)) = (ends.iter().map(|e| e.0).min(), ends.iter().map(|e| e.1).max()) else {
        return Vec::new();
    };
    let octaves = (last as f64 / first as f64).log2();
    let steps = (octaves * f64::from(PER_OCTAVE)).ceil().max(1.0) as u32;
    let at = |i: u32| (first as f64 * (octaves * f64::from(i) / f64::from(steps)).exp2()).round() as u64;
    let mut sizes: Vec<u64> = (0..=steps).map(at).collect();
    sizes.dedup();
    sizes
}

/// Power law of the bytes transferred over the size, fitted through two examples.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PowerLaw {
    units: f64,
    bytes: f64,
    exponent: f64,
}

impl PowerLaw {
    fn through(small: (u64, u64), large: (u64, u64)) -> PowerLaw {
        let (u, b) = (large.0.max(1) as f64, large.1 as f64);
        let (steps, grown) = (u / small.0.max(1) as f64, b / small.1.max(1) as f64);
        let exponent =
            if steps > 1.0 && grown > 0.0 { (grown.ln() / steps.ln()).clamp(0.0, 2.0) } else { 0.0 };
        PowerLaw { units: u, bytes: b, exponent }
    }

    fn at(&self, units: u64) -> u64 {
        (self.bytes * (units as f64 / self.units).powf(self.exponent)).round() as u64
    }
}

/// Upload and download laws of a kind, from its examples.
fn transfer_laws(row: &OpEntry) -> Option<(PowerLaw, PowerLaw)> {
    let work = |size: usize| Work::of((row.example)(&[size]).ok()?.as_ref(), false).ok();
    let sizes = || row.calibrate.iter().copied().filter(|s| *s <= MAX_EXAMPLE);
    let (small, large) = (work(sizes().min()?)?, work(sizes().max()?)?);
    let law = |bytes: fn(&Work) -> u64| {
        PowerLaw::through((small.cost.units, bytes(&small)), (large.cost.units, bytes(&large)))
    };
    Some((law(|w| w.upload.0), law(|w| w.download.0)))
}

/// Predicted transfer time of a kind on a backend.
fn transfers(model: &CostModel, laws: Option<(PowerLaw, PowerLaw)>, units: u64) -> f64 {
    let ns = |curve: &Option<Curve>, bytes: u64| match curve {
        Some(curve) if bytes > 0 => f64::from(curve.at(bytes)),
        _ => 0.0,
    };
    laws.map_or(0.0, |(up, down)| ns(&model.upload, up.at(units)) + ns(&model.download, down.at(units)))
}

/// One panel for every kind that the first backend has a curve of.
pub fn panels(models: &[CostModel]) -> Vec<Panel> {
    let of = |kind: OpKind| models.first()?.curve(kind).map(|_| kind);
    OpKind::ALL.iter().filter_map(|kind| panel(of(*kind)?, models)).collect()
}

/// The panel of one kind.
pub fn panel(kind: OpKind, models: &[CostModel]) -> Option<Panel> {
    let laws = registry::entry(kind).and_then(transfer_laws);
    let backends: Vec<(&CostModel, &Curve)> =
        models.iter().filter_map(|m| Some((m, m.curve(kind)?))).collect();
    let sizes = grid(&backends.iter().map(|(_, c)| *c).collect::<Vec<_>>());
    let line = |(model, curve): &(&CostModel, &Curve)| CurveLine {
        name: model.name.clone(),
        points: sizes.iter().map(|u| (*u, f64::from(curve.at(*u)) + transfers(model, laws, *u))).collect(),
        peak: peak(curve),
    };
    let lines: Vec<CurveLine> = backends.iter().map(line).collect();
    let crossings = match backends.as_slice() {
        [(_, a), (model, b), ..] => crossings(a, b, &|units| transfers(model, laws, units)),
        _ => Vec::new(),
    };
    let start = |l: &CurveLine| l.points.first().map_or(f64::MAX, |p| p.1);
    let ends = lines.iter().take(2).map(start).enumerate();
    let first = ends.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i);
    let (title, unit) = (kind.name().to_owned(), kind.unit().to_owned());
    (!lines.is_empty()).then_some(Panel { title, unit, lines, crossings, first })
}

/// Peak throughput in units per second.
fn peak(curve: &Curve) -> f64 {
    curve.points().iter().map(|p| p.units as f64 / p.ns * 1e9).fold(0.0, f64::max)
}

/// `512`, `65.5k`, `16.8M`, `3.2G`.
pub fn count(n: u64) -> String {
    scaled(n as f64, &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")])
}

/// `1.2 ms` from nanoseconds.
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")])
}

/// `3.2 G/s` from units per second.
pub fn rate(per_second: f64) -> String {
    scaled(per_second, &[(1e12, " T/s"), (1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")])
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (unit, name) =
        units.iter().find(|(u, _)| value >= *u * 0.9995).or(units.last()).copied().unwrap_or((1.0, ""));
    let value = value / unit;
    match value {
        v if v >= 99.95 || (v.fract() == 0.0 && unit == 1.0) => format!("{v:.0}{name}"),
        v => format!("{v:.1}{name}"),
    }
}

/// Ranges of all lines: sizes and times.
fn bounds(lines: &[CurveLine]) -> Option<((f64, f64), (f64, f64))> {
    let all = || lines.iter().flat_map(|l| &l.points);
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.filter(|v| v.is_finite() && *v > 0.0).fold(None, |range: Option<(f64, f64)>, v| {
            Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        })
    };
    Some((range(&mut all().map(|p| p.0 as f64))?, range(&mut all().map(|p| p.1))?))
}

/// Position of a value on a logarithmic axis: 0 to 1.
fn log_position((low, high): (f64, f64), value: f64) -> f64 {
    if high <= low { 0.5 } else { ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_formatted_with_units() {
        assert_eq!(
            [count(512), count(65_536), count(1 << 24), count(999_900)],
            ["512", "65.5k", "16.8M", "1.0M"]
        );
        assert_eq!([time(1.2e6), time(480.0), time(0.5), time(2e9)], ["1.2 ms", "480 ns", "0.5 ns", "2.0 s"]);
        assert_eq!(rate(3.24e9), "3.2 G/s");
    }

    #[test]
    fn transfers_of_large_sizes_are_extrapolated() {
        let products = PowerLaw::through((16u64.pow(3), 16 * 16 * 8), (64u64.pow(3), 64 * 64 * 8));
        assert_eq!(products.at(1024u64.pow(3)), 1024 * 1024 * 8);
        let constant = PowerLaw::through((256, 4), (4096, 4));
        assert_eq!(constant.at(1 << 30), 4);
        let nothing = PowerLaw::through((256, 0), (4096, 0));
        assert_eq!(nothing.at(1 << 30), 0);
    }
}
