//! Panes of a chart: price, volume, then the panels, each with a value axis and its range.

use super::{
    Chart, ChartSeries, Mark, OhlcView, downsample,
    value_axis::{Range, drawable},
};
use crate::theme::ThemeColor;

/// A series of a pane.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PaneSeries<'a> {
    /// Open, high, low and close.
    Candles(OhlcView<'a>),
    /// Volumes, coloured by their bars.
    Volume(OhlcView<'a>),
    /// A column.
    Column { name: &'a str, values: &'a [f64], mark: Mark, color: ThemeColor },
}

/// A part of the chart with a value axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pane<'a> {
    pub(super) title: &'a str,
    pub(super) series: Vec<PaneSeries<'a>>,
    pub(super) levels: &'a [f64],
    pub(super) band: Option<(f64, f64)>,
    pub(super) bounds: Option<(f64, f64)>,
    /// Legend text about aggregation; empty where each bar is drawn.
    pub(super) note: String,
    /// Share of the height.
    pub(super) share: f64,
    /// Minimum height in pixels.
    pub(super) min_height: f64,
}

impl<'a> Pane<'a> {
    fn new(title: &'a str, series: Vec<PaneSeries<'a>>, share: f64, min_height: f64) -> Pane<'a> {
        Pane { title, series, levels: &[], band: None, bounds: None, note: String::new(), share, min_height }
    }

    /// Range of the axis when `per` bars are aggregated; `None` without values.
    pub(super) fn range(&self, per: usize) -> Option<Range> {
        let fixed = self.bounds.and_then(|(a, b)| Range::of([a, b])).filter(|r| r.low < r.high);
        if fixed.is_some() {
            return fixed;
        }
        let found = self.series.iter().filter_map(|s| s.range(per)).reduce(Range::union)?;
        let marked = self.levels.iter().copied().chain(self.band.into_iter().flat_map(|(a, b)| [a, b]));
        let all = Range::of(marked).map_or(found, |r| r.union(found));
        let padded = all.padded();
        // Bars touch the lower edge.
        let at_zero = self.series.iter().any(PaneSeries::is_zero_based) && all.low == 0.0;
        Some(if at_zero { Range { low: 0.0, ..padded } } else { padded })
    }
}

impl<'a> PaneSeries<'a> {
    fn of(lines: &'a [ChartSeries<'a>], bars: usize) -> impl Iterator<Item = PaneSeries<'a>> {
        lines.iter().enumerate().map(move |(n, line)| PaneSeries::Column {
            name: &line.name,
            values: line.values.get(..bars.min(line.values.len())).unwrap_or_default(),
            mark: line.mark,
            color: ThemeColor::Line(n),
        })
    }

    /// Is it aggregated where there are more bars than pixels?
    pub(super) fn aggregates(&self) -> bool {
        matches!(self, PaneSeries::Candles(_)) || self.is_zero_based()
    }

    /// Are its bars drawn from zero?
    fn is_zero_based(&self) -> bool {
        matches!(self, PaneSeries::Volume(_) | PaneSeries::Column { mark: Mark::Histogram, .. })
    }

    /// Minimum and maximum when `per` bars are aggregated.
    fn range(&self, per: usize) -> Option<Range> {
        let zero = Range { low: 0.0, high: 0.0 };
        let found = match self {
            PaneSeries::Candles(bars) => {
                let columns = [bars.open, bars.high, bars.low, bars.close];
                Range::of(columns.into_iter().flatten().copied())
            }
            PaneSeries::Volume(bars) => Range::of(downsample::sums(bars.volume, per)),
            PaneSeries::Column { values, .. } => Range::of(values.iter().copied()),
        }?;
        Some(if self.is_zero_based() { found.union(zero) } else { found })
    }

    /// The last value and its colour.
    pub(super) fn last(&self) -> Option<(f64, ThemeColor)> {
        let value = |values: &[f64]| values.iter().rev().copied().find(|v| drawable(*v));
        match self {
            PaneSeries::Candles(bars) => {
                let last = downsample::candles(bars, 1).pop()?;
                Some((last.close, direction(last.open, last.close)))
            }
            PaneSeries::Volume(_) => None,
            PaneSeries::Column { values, mark: Mark::Histogram, .. } => {
                let last = value(values)?;
                Some((last, direction(0.0, last)))
            }
            PaneSeries::Column { values, color, .. } => Some((value(values)?, *color)),
        }
    }
}

/// Colour of a move: up or down.
pub(super) fn direction(from: f64, to: f64) -> ThemeColor {
    if to < from { ThemeColor::Down } else { ThemeColor::Up }
}

/// The panes of a chart from top to bottom; at least one.
pub(super) fn panes<'a>(chart: &'a Chart<'a>) -> Vec<Pane<'a>> {
    let bars = chart.bars;
    let any = |values: &[f64]| values.iter().any(|v| drawable(*v));
    let columns = [bars.open, bars.high, bars.low, bars.close];
    let mut prices: Vec<PaneSeries<'_>> = Vec::new();
    if columns.iter().all(|c| any(c)) {
        prices.push(PaneSeries::Candles(bars));
    } else {
        let named = [("close", bars.close), ("open", bars.open), ("high", bars.high), ("low", bars.low)];
        let line = named.into_iter().find(|(_, values)| any(values));
        let series = |(name, values): (&'static str, &'a [f64])| PaneSeries::Column {
            name,
            values,
            mark: Mark::Line,
            color: ThemeColor::Text,
        };
        prices.extend(line.map(series));
    }
    prices.extend(PaneSeries::of(&chart.overlays, bars.len()));
    let mut panes = Vec::new();
    if !prices.is_empty() || chart.panels.is_empty() {
        panes.push(Pane::new("Price", prices, 3.0, 160.0));
    }
    if any(bars.volume) {
        panes.push(Pane::new("Volume", vec![PaneSeries::Volume(bars)], 0.7, 56.0));
    }
    panes.extend(chart.panels.iter().map(|panel| {
        let series = PaneSeries::of(&panel.series, bars.len()).collect();
        let (levels, band, bounds) = (panel.levels.as_slice(), panel.band, panel.bounds);
        Pane { levels, band, bounds, ..Pane::new(&panel.title, series, 1.0, 84.0) }
    }));
    panes
}
