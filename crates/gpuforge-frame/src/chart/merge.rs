//! Bars that share a candle: how many, how long that is, and how it is said. What does one candle stand for where there are
//! more bars than pixels?
//!
//! The script of a page has the same arithmetic (`page.js`), since there the width of the window decides.

use super::{Chart, clock::Clock, draw, marks, pane::Series, pane::panes, thin};

const DAY: i64 = 86_400;

/// How bars are merged in a drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// Bars in one candle; 1 where each has its own.
    pub bars_per_candle: usize,
    /// Seconds that a candle spans, by the usual distance of two bars; `None` where bars have no times.
    pub seconds: Option<f64>,
}

impl Merged {
    /// `1 candle = 3 bars (2 days 04:00)`; `None` where nothing is merged.
    pub fn text(&self) -> Option<String> {
        let span = self.seconds.map(|s| format!(" ({})", span(s))).unwrap_or_default();
        (self.bars_per_candle > 1).then(|| format!("1 candle = {} bars{span}", self.bars_per_candle))
    }
}

/// What a drawing of this chart merges. Lines keep every extreme and merge nothing.
pub(super) fn merged(chart: &Chart<'_>) -> Merged {
    let stands = panes(chart).iter().flat_map(|p| &p.series).any(Series::merges);
    let bars_per_candle = if stands { per(chart) } else { 1 };
    let step = step(&Clock::of(chart.layout, &chart.bars.time));
    Merged { bars_per_candle, seconds: step.map(|s| s * bars_per_candle as f64) }
}

/// How many bars are one, by the width. How wide the plot is depends on its axis, and that on what is drawn: a first guess
/// decides.
pub(super) fn per(chart: &Chart<'_>) -> usize {
    thin::per(chart.bars.len(), room(chart))
}

/// How many candles there is room for.
pub(super) fn room(chart: &Chart<'_>) -> usize {
    ((draw::width(chart) - draw::AXIS) / marks::CANDLE) as usize
}

/// The median distance of two bars in seconds; nights and weekends are fewer than bars.
pub(super) fn step(clock: &Clock) -> Option<f64> {
    let Clock::Calendar { seconds, .. } = clock else { return None };
    let mut steps: Vec<f64> = seconds.windows(2).filter_map(|w| Some(w.get(1)? - w.first()?)).collect();
    let middle = steps.len() / 2;
    if steps.is_empty() {
        return None;
    }
    let (_, step, _) = steps.select_nth_unstable_by(middle, f64::total_cmp);
    (*step > 0.0 && step.is_finite()).then_some(*step)
}

/// A time span in words: `45 s`, `15 min`, `4 h 30 min`, `2 days 04:00`.
pub(super) fn span(seconds: f64) -> String {
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
    fn spans_are_read_at_a_glance() {
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
            assert_eq!(span(seconds), text);
        }
        let merged = Merged { bars_per_candle: 13, seconds: Some(13.0 * 14_400.0) };
        assert_eq!(merged.text().as_deref(), Some("1 candle = 13 bars (2 days 04:00)"));
        assert_eq!(Merged { bars_per_candle: 3, seconds: None }.text().as_deref(), Some("1 candle = 3 bars"));
        assert_eq!(Merged { bars_per_candle: 1, seconds: Some(60.0) }.text(), None);
    }

    #[test]
    fn the_usual_distance_is_not_that_of_weekends() {
        let clock = |seconds: &[f64]| Clock::Calendar { seconds: seconds.to_vec(), zone: None, daily: false };
        let day = 86_400.0;
        assert_eq!(step(&clock(&[0.0, day, 2.0 * day, 5.0 * day, 6.0 * day])), Some(day));
        assert_eq!((step(&clock(&[7.0])), step(&clock(&[])), step(&clock(&[5.0, 5.0]))), (None, None, None));
        assert_eq!(step(&Clock::Index), None);
    }
}
