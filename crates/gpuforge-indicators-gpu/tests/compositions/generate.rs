//! Random compositions: expressions of rows, prices and arithmetic in the selection language, by a seeded generator.

use gpuforge_indicators::catalogue::{self, Indicator, IndicatorKind};

/// Deterministic LCG.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

const PRICES: [&str; 8] = ["close", "close", "close", "open", "high", "low", "hl2", "hlc3"];

/// Rows that a composition may use: no candlestick patterns, no rows that are thousands of nodes.
fn rows() -> Vec<&'static Indicator> {
    let usable = |row: &&Indicator| row.kind != IndicatorKind::Candlestick && row.name != "mavp";
    catalogue::all().filter(usable).collect()
}

/// An expression of at most this depth.
pub(crate) fn expression(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 3 } else { 10 }) {
        0 => (*random.one(&PRICES)).to_owned(),
        1 | 2 => call(random, None),
        3..=6 => {
            let source = expression(random, depth - 1);
            call(random, Some(source))
        }
        _ => {
            let op = *random.one(&["+", "-", "-", "*", "/", "/"]);
            let a = expression(random, depth - 1);
            let b = match random.below(4) {
                0 => (*random.one(&["2", "0.5", "3", "100"])).to_owned(),
                _ => expression(random, depth - 1),
            };
            format!("({a} {op} {b})")
        }
    }
}

/// A row with its defaults or another period, of a source or of the bars; one of its outputs.
fn call(random: &mut Random, source: Option<String>) -> String {
    let rows: Vec<&Indicator> = rows().into_iter().filter(|r| source.is_none() || r.takes_source()).collect();
    let row = *random.one(&rows);
    let period =
        row.params.first().filter(|p| p.integer && !p.even && p.name == "period" && row.params.len() == 1);
    let mut text = row.name.to_owned();
    let mut arguments = Vec::new();
    if let Some(period) = period
        && random.below(2) == 0
    {
        let n = (period.min as usize).max(3) + random.below(30);
        arguments.push(n.to_string());
    }
    if let Some(source) = source {
        arguments.push(format!("source={source}"));
    }
    if !arguments.is_empty() {
        text.push_str(&format!("({})", arguments.join(", ")));
    }
    if row.outputs.len() > 1 {
        if arguments.is_empty() {
            text.push_str("()");
        }
        text.push_str(&format!(".{}", random.one(row.outputs)));
    }
    text
}
