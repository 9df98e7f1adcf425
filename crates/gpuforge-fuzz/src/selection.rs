//! Random selections: rows, parameters, sources, definitions; as text, so that a failing one is a command.

use gpuforge::indicators::{
    catalogue::{self, Convention, Indicator, Param},
    select::{SelectItem, Selector},
};

use crate::random::Rng;

/// A selection as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Definitions `NAME = EXPRESSION`.
    pub definitions: Vec<String>,
    /// One term each, such as `sma(10, source=hl2)`.
    pub terms: Vec<String>,
    /// Convention.
    pub convention: Convention,
}

/// Max window of most terms, so that there are bars after the warm-up.
const WINDOW: f64 = 60.0;
/// Max window of the others.
const LONG_WINDOW: f64 = 400.0;

impl Selection {
    /// From `min` to `max` terms.
    pub fn random(rng: &mut Rng, min: usize, max: usize) -> Selection {
        let convention = if rng.percent(10) { Convention::Pandas } else { Convention::TaLib };
        let rows: Vec<&'static Indicator> = catalogue::all().collect();
        let mut definitions: Vec<String> = Vec::new();
        for at in 0..if rng.percent(25) { rng.between(1, 3) } else { 0 } {
            definitions.push(format!("d{at} = {}", formula(rng, &rows, 2)));
        }
        let count = match rng.below(100) {
            0..60 => rng.between(min, max.min(6)),
            60..90 => rng.between(min, max.min(30)),
            _ => rng.between(min, max),
        };
        let names: Vec<String> = (0..definitions.len()).map(|at| format!("d{at}")).collect();
        let mut selection = Selection { definitions, terms: Vec::new(), convention };
        while selection.terms.len() < count {
            let term = if !names.is_empty() && rng.percent(10) {
                names.get(rng.below(names.len())).cloned().unwrap_or_default()
            } else {
                term(rng, &rows, &names)
            };
            // Rejected parameter combinations are resampled.
            if selection.wanted_of(&term).is_ok() {
                selection.terms.push(term);
            }
        }
        selection
    }

    /// Rows with default or random parameters only: no sources, no definitions.
    pub fn plain(rng: &mut Rng, min: usize, max: usize) -> Selection {
        let rows: Vec<&'static Indicator> = catalogue::all().collect();
        let mut selection =
            Selection { definitions: Vec::new(), terms: Vec::new(), convention: Convention::TaLib };
        for _ in 0..rng.between(min, max) {
            let term = rng.pick(&rows).map(|row| call(row.name, &parameters(rng, row)));
            selection.terms.extend(term.filter(|term| selection.wanted_of(term).is_ok()));
        }
        selection
    }

    fn selector(&self) -> Result<Selector, String> {
        let mut selector = Selector::by(self.convention);
        for definition in &self.definitions {
            selector.define(definition).map_err(|e| e.to_string())?;
        }
        Ok(selector)
    }

    /// Resolves one term.
    pub fn wanted_of(&self, term: &str) -> Result<Vec<SelectItem>, String> {
        self.selector()?.select(term).map_err(|e| e.to_string())
    }

    /// Resolves the whole selection.
    pub fn wanted(&self) -> Result<Vec<SelectItem>, String> {
        self.selector()?.select(&self.text()).map_err(|e| e.to_string())
    }

    /// Text for `--select`.
    pub fn text(&self) -> String {
        self.terms.join(", ")
    }
}

/// A row with parameters, perhaps a source, perhaps one of its outputs.
fn term(rng: &mut Rng, rows: &[&'static Indicator], definitions: &[String]) -> String {
    let Some(row) = rng.pick(rows) else { return String::new() };
    let mut arguments = parameters(rng, row);
    if row.takes_source() && rng.percent(25) {
        arguments.extend(source(rng, rows, definitions).map(|source| format!("source={source}")));
        // The second source may be left at its default.
        if row.n_sources() == 2 && rng.percent(75) {
            arguments.extend(source(rng, rows, definitions));
        }
    }
    let mut text = call(row.name, &arguments);
    if row.outputs.len() > 1
        && rng.percent(20)
        && let Some(output) = rng.pick(row.outputs)
    {
        text.push('.');
        text.push_str(output);
    }
    text
}

/// A definition, a column or an indicator.
fn source(rng: &mut Rng, rows: &[&'static Indicator], definitions: &[String]) -> Option<String> {
    match rng.below(4) {
        0 if !definitions.is_empty() => definitions.get(rng.below(definitions.len())).cloned(),
        0 | 1 => rng.pick(&PRICES).map(str::to_owned),
        _ => rng.pick(rows).map(|row| call(row.name, &parameters(rng, row))),
    }
}

/// Columns that a source may be.
const PRICES: [&str; 9] = ["open", "high", "low", "close", "volume", "hl2", "hlc3", "hlcc4", "ohlc4"];

fn call(name: &str, arguments: &[String]) -> String {
    if arguments.is_empty() { name.to_owned() } else { format!("{name}({})", arguments.join(",")) }
}

/// Random parameters; the defaults half of the time.
fn parameters(rng: &mut Rng, row: &Indicator) -> Vec<String> {
    if row.params.is_empty() || rng.percent(50) {
        return Vec::new();
    }
    let longest = if rng.percent(15) { LONG_WINDOW } else { WINDOW };
    row.params.iter().map(|p| parameter(rng, p, longest).to_string()).collect()
}

fn parameter(rng: &mut Rng, p: &Param, longest: f64) -> f64 {
    let high = p.max.min(if p.integer { longest.max(p.min) } else { p.default.abs().max(1.0) * 4.0 });
    let x = if rng.percent(30) { p.default } else { p.min + rng.unit() * (high - p.min).max(0.0) };
    let rounded = match p {
        _ if p.even => (x / 2.0).round() * 2.0,
        _ if p.integer => x.round(),
        _ => (x * 100.0).round() / 100.0,
    };
    rounded.clamp(p.min, p.max)
}

/// Random expression of this depth.
fn formula(rng: &mut Rng, rows: &[&'static Indicator], depth: usize) -> String {
    if depth == 0 || rng.percent(15) {
        return match rng.below(4) {
            0 => format!("{}", rng.between(1, 9)),
            1 => {
                rng.pick(rows).map_or_else(|| "close".to_owned(), |row| call(row.name, &parameters(rng, row)))
            }
            _ => rng.pick(&PRICES).unwrap_or("close").to_owned(),
        };
    }
    let (a, b) = (formula(rng, rows, depth - 1), formula(rng, rows, depth - 1));
    match rng.below(5) {
        0 => format!("({a} + {b})"),
        1 => format!("({a} - {b})"),
        2 => format!("({a} * {b})"),
        3 => format!("({a} / {b})"),
        _ => format!("-({a} - {b})"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn random_selections_are_valid() {
        let mut rng = Rng::new(11);
        let (mut sources, mut pairs, mut outputs, mut definitions) = (0, 0, 0, 0);
        for _ in 0..200 {
            let selection = Selection::random(&mut rng, 2, 40);
            assert!((2..=40).contains(&selection.terms.len()));
            selection.wanted().unwrap();
            let text = selection.text();
            let two = |i: &SelectItem| matches!(i, SelectItem::Instance(i) if i.sources.len() == 2);
            pairs += selection.wanted().unwrap().iter().filter(|item| two(item)).count();
            sources += usize::from(text.contains("source="));
            outputs += usize::from(text.contains(")."));
            definitions += usize::from(!selection.definitions.is_empty());
        }
        assert!(sources > 50 && outputs > 10 && definitions > 20, "{sources} {outputs} {definitions}");
        assert!(pairs > 3, "{pairs} terms of two sources");
    }
}
