//! Candle aggregation: how many bars a candle stands for when there are more bars than pixels, and how long that is.
//!
//! The script of a page has the same arithmetic (`chart.js`), since there the width of the window decides.

use super::{Chart, downsample, layout, marks, pane::PaneSeries, pane::panes, time_axis::TimeAxis};

const DAY: i64 = 86_400;

/// How bars are aggregated into candles.
#[derive(Debug, Clone, PartialEq)]
pub struct CandleAggregation {
    /// Bars per candle; 1 where each has its own.
    pub bars_per_candle: usize,
    /// Seconds per candle, by the median bar interval; `None` where bars have no times.
    pub seconds: Option<f64>,
}

impl CandleAggregation {
    /// `1 candle = 3 bars (2 days 04:00)`; `None` where nothing is aggregated.
    pub fn text(&self) -> Option<String> {
        let span = self.seconds.map(|s| format!(" ({})", format_duration(s))).unwrap_or_default();
        (self.bars_per_candle > 1).then(|| format!("1 candle = {} bars{span}", self.bars_per_candle))
    }
}

/// Aggregation of a chart. Lines keep every extreme (M4) and aggregate nothing.
pub(super) fn aggregation(chart: &Chart<'_>) -> CandleAggregation {
    let aggregates = panes(chart).iter().flat_map(|p| &p.series).any(PaneSeries::aggregates);
    let bars_per_candle = if aggregates { bars_per_candle(chart) } else { 1 };
    let step = bar_interval(chart.bars.time);
    CandleAggregation { bars_per_candle, seconds: step.map(|s| s * bars_per_candle as f64) }
}

/// Bars per candle by the width. The plot's width depends on its axis labels, and these on what is drawn: an estimate of
/// the axis width decides.
pub(super) fn bars_per_candle(chart: &Chart<'_>) -> usize {
    downsample::bars_per_candle(chart.bars.len(), max_candles(chart))
}

/// How many candles there is room for.
pub(super) fn max_candles(chart: &Chart<'_>) -> usize {
    ((layout::width(chart) - layout::AXIS_WIDTH) / marks::MIN_CANDLE_WIDTH) as usize
}

/// Median interval between bars in seconds: nights and weekends are too few to matter.
pub(super) fn bar_interval(time: &TimeAxis) -> Option<f64> {
    let TimeAxis::Calendar { seconds, .. } = time else { return None };
    let mut steps: Vec<f64> = seconds.windows(2).filter_map(|w| Some(w.get(1)? - w.first()?)).collect();
    let middle = steps.len() / 2;
    if steps.is_empty() {
        return None;
    }
    let (_, step, _) = steps.select_nth_unstable_by(middle, f64::total_cmp);
    (*step > 0.0 && step.is_finite()).then_some(*step)
}

/// Formats a duration: `45 s`, `15 min`, `4 h 30 min`, `2 days 04:00`.
pub(super) fn format_duration(seconds: f64) -> String {
    if seconds < 1.0 {
        let ms = (seconds * 1e6).round() / 1e3;
        return format!("{ms} ms");
    }
    let whole = seconds.round().min(1e15) as i64;
    let (days, hours, minutes, rest) = (whole / DAY, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    let with = |large: String, small: i64, unit: &str| match small {
        0 => large,
        small => format!("{large} {small} {unit}"),
    };
    match () {
        () if days > 0 => {
            let s = if days == 1 { "" } else { "s" };
            let clock = if hours + minutes > 0 { format!(" {hours:02}:{minutes:02}") } else { String::new() };
            format!("{days} day{s}{clock}")
        }
        () if hours > 0 => with(format!("{hours} h"), minutes, "min"),
        () if minutes > 0 => with(format!("{minutes} min"), rest, "s"),
        () => format!("{rest} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_in_the_largest_units() {
        for (seconds, text) in [
            (0.25, "250 ms"),
            (1.0, "1 s"),
            (59.0, "59 s"),
            (60.0, "1 min"),
            (90.0, "1 min 30 s"),
            (900.0, "15 min"),
            (3600.0, "1 h"),
            (16_200.0, "4 h 30 min"),
            (86_400.0, "1 day"),
            (187_200.0, "2 days 04:00"),
            (864_000.0, "10 days"),
        ] {
            assert_eq!(format_duration(seconds), text);
        }
        let aggregation = CandleAggregation { bars_per_candle: 13, seconds: Some(13.0 * 14_400.0) };
        assert_eq!(aggregation.text().as_deref(), Some("1 candle = 13 bars (2 days 04:00)"));
        assert_eq!(
            CandleAggregation { bars_per_candle: 3, seconds: None }.text().as_deref(),
            Some("1 candle = 3 bars")
        );
        assert_eq!(CandleAggregation { bars_per_candle: 1, seconds: Some(60.0) }.text(), None);
    }

    #[test]
    fn bar_interval_ignores_weekends() {
        let clock =
            |seconds: &[f64]| TimeAxis::Calendar { seconds: seconds.to_vec(), zone: None, daily: false };
        let day = 86_400.0;
        assert_eq!(bar_interval(&clock(&[0.0, day, 2.0 * day, 5.0 * day, 6.0 * day])), Some(day));
        assert_eq!(
            (bar_interval(&clock(&[7.0])), bar_interval(&clock(&[])), bar_interval(&clock(&[5.0, 5.0]))),
            (None, None, None)
        );
        assert_eq!(bar_interval(&TimeAxis::Index), None);
    }
}
