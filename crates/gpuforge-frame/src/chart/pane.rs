//! Which panes does a chart have, and what is in them? Price, volume, then the panels, each with an axis.

use super::{Chart, Line, Mark, axis::Range, axis::drawable, theme::Ink, thin};
use crate::bars::Bars;

/// Something that is drawn in a pane.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Series<'a> {
    /// Prices with all four columns.
    Candles(&'a Bars),
    /// Volumes, coloured by their bars.
    Volume(&'a Bars),
    /// A column.
    Column { name: &'a str, values: &'a [f64], mark: Mark, ink: Ink },
}

/// A part of the chart with an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pane<'a> {
    pub(super) title: &'a str,
    pub(super) series: Vec<Series<'a>>,
    pub(super) levels: &'a [f64],
    pub(super) band: Option<(f64, f64)>,
    pub(super) bounds: Option<(f64, f64)>,
    /// What its bars stand for where several are one; empty where each is drawn.
    pub(super) note: String,
    /// Its share of the height.
    pub(super) share: f64,
    /// The least height in pixels.
    pub(super) least: f64,
}

impl<'a> Pane<'a> {
    fn new(title: &'a str, series: Vec<Series<'a>>, share: f64, least: f64) -> Pane<'a> {
        Pane { title, series, levels: &[], band: None, bounds: None, note: String::new(), share, least }
    }

    /// The values that its axis shows, when `per` bars are one; `None` if there are none.
    pub(super) fn range(&self, per: usize) -> Option<Range> {
        let fixed = self.bounds.and_then(|(a, b)| Range::of([a, b])).filter(|r| r.low < r.high);
        if fixed.is_some() {
            return fixed;
        }
        let found = self.series.iter().filter_map(|s| s.range(per)).reduce(Range::and)?;
        let marked = self.levels.iter().copied().chain(self.band.into_iter().flat_map(|(a, b)| [a, b]));
        let all = Range::of(marked).map_or(found, |r| r.and(found));
        let roomy = all.roomy();
        // Bars stand on the edge.
        let stands = self.series.iter().any(Series::stands) && all.low == 0.0;
        Some(if stands { Range { low: 0.0, ..roomy } } else { roomy })
    }
}

impl<'a> Series<'a> {
    fn of(lines: &'a [Line<'a>], bars: usize) -> impl Iterator<Item = Series<'a>> {
        lines.iter().enumerate().map(move |(n, line)| Series::Column {
            name: &line.name,
            values: line.values.get(..bars.min(line.values.len())).unwrap_or_default(),
            mark: line.mark,
            ink: Ink::Line(n),
        })
    }

    /// Are several bars of it drawn as one where there is little room?
    pub(super) fn merges(&self) -> bool {
        matches!(self, Series::Candles(_)) || self.stands()
    }

    /// Does it begin at zero?
    fn stands(&self) -> bool {
        matches!(self, Series::Volume(_) | Series::Column { mark: Mark::Histogram, .. })
    }

    /// Its lowest and highest value when `per` bars are one.
    fn range(&self, per: usize) -> Option<Range> {
        let zero = Range { low: 0.0, high: 0.0 };
        let found = match self {
            Series::Candles(bars) => {
                let columns = [&bars.open, &bars.high, &bars.low, &bars.close];
                Range::of(columns.into_iter().flatten().copied())
            }
            Series::Volume(bars) => Range::of(thin::sums(&bars.volume, per)),
            Series::Column { values, .. } => Range::of(values.iter().copied()),
        }?;
        Some(if self.stands() { found.and(zero) } else { found })
    }

    /// The last value, and the colour it is shown in.
    pub(super) fn last(&self) -> Option<(f64, Ink)> {
        let value = |values: &[f64]| values.iter().rev().copied().find(|v| drawable(*v));
        match self {
            Series::Candles(bars) => {
                let last = thin::candles(bars, 1).pop()?;
                Some((last.close, direction(last.open, last.close)))
            }
            Series::Volume(_) => None,
            Series::Column { values, mark: Mark::Histogram, .. } => {
                let last = value(values)?;
                Some((last, direction(0.0, last)))
            }
            Series::Column { values, ink, .. } => Some((value(values)?, *ink)),
        }
    }
}

/// Up or down.
pub(super) fn direction(from: f64, to: f64) -> Ink {
    if to < from { Ink::Down } else { Ink::Up }
}

/// The panes of a chart from top to bottom; at least one.
pub(super) fn panes<'a>(chart: &'a Chart<'a>) -> Vec<Pane<'a>> {
    let bars = chart.bars;
    let any = |values: &[f64]| values.iter().any(|v| drawable(*v));
    let columns = [&bars.open, &bars.high, &bars.low, &bars.close];
    let mut prices: Vec<Series<'_>> = Vec::new();
    if columns.iter().all(|c| any(c)) {
        prices.push(Series::Candles(bars));
    } else {
        let named = [("close", &bars.close), ("open", &bars.open), ("high", &bars.high), ("low", &bars.low)];
        let line = named.into_iter().find(|(_, values)| any(values));
        let series = |(name, values): (&'static str, &'a Vec<f64>)| Series::Column {
            name,
            values,
            mark: Mark::Line,
            ink: Ink::Text,
        };
        prices.extend(line.map(series));
    }
    prices.extend(Series::of(&chart.overlays, bars.len()));
    let mut panes = Vec::new();
    if !prices.is_empty() || chart.panels.is_empty() {
        panes.push(Pane::new("Price", prices, 3.0, 160.0));
    }
    if any(&bars.volume) {
        panes.push(Pane::new("Volume", vec![Series::Volume(bars)], 0.7, 56.0));
    }
    panes.extend(chart.panels.iter().map(|panel| {
        let series = Series::of(&panel.lines, bars.len()).collect();
        let (levels, band, bounds) = (panel.levels.as_slice(), panel.band, panel.bounds);
        Pane { levels, band, bounds, ..Pane::new(&panel.title, series, 1.0, 84.0) }
    }));
    panes
}
