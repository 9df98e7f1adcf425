//! Candlestick charts of [`Bars`]: re-exports gpuforge-chart, and converts bars and their layout to its borrowed view.
//!
//! The conversion is here because gpuforge-chart knows no Arrow types and gpuforge-frame draws nothing.

pub use gpuforge_chart::*;

use gpuforge_frame::{Bars, KeySchema};

/// Time axis of a series: wall-clock time in the column's zone, or plain integers.
pub fn time_axis(layout: &KeySchema, time: &[i64]) -> TimeAxis {
    match layout.wall_clock_seconds(time) {
        Some(seconds) => TimeAxis::calendar(seconds, layout.time_zone().map(str::to_owned)),
        None => TimeAxis::from_integers(time),
    }
}

/// Borrows the columns of `bars`.
pub fn ohlc_view<'a>(time: &'a TimeAxis, bars: &'a Bars) -> OhlcView<'a> {
    let Bars { open, high, low, close, volume, .. } = bars;
    OhlcView { time, open, high, low, close, volume }
}

/// A chart of `bars` without indicators, titled by their symbol.
pub fn candlestick_chart<'a>(time: &'a TimeAxis, bars: &'a Bars) -> Chart<'a> {
    let title = bars.symbol.as_ref().map(ToString::to_string).unwrap_or_default();
    Chart::new(title, ohlc_view(time, bars))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, TimeUnit};
    use gpuforge_frame::bars::KeyColumn;

    use super::*;

    const NEW_YEAR_2024: i64 = 1_704_067_200;
    const DAY: i64 = 86_400;

    fn layout(kind: DataType) -> KeySchema {
        KeySchema {
            time: Some(KeyColumn { name: "time".to_owned(), data_type: kind }),
            ..KeySchema::default()
        }
    }

    /// `first to last` as the chart's subtitle has it.
    fn subtitle(layout: &KeySchema, time: &[i64]) -> String {
        let axis = time_axis(layout, time);
        let bars = Bars { time: time.to_vec(), ..Bars::default() };
        candlestick_chart(&axis, &bars).scene().description
    }

    #[test]
    fn time_axis_is_wall_clock_time_in_the_zone() {
        let zone = layout(DataType::Timestamp(TimeUnit::Millisecond, Some("America/New_York".into())));
        let times = [NEW_YEAR_2024 * 1000, (NEW_YEAR_2024 + 200 * DAY) * 1000];
        let said = subtitle(&zone, &times);
        assert!(said.starts_with("2023-12-31 19:00 to 2024-07-18 20:00 America/New_York, 2 bars"), "{said}");
        assert!(subtitle(&layout(DataType::Date32), &[19_782]).starts_with("2024-02-29, 1 bar"));
        let unknown = layout(DataType::Timestamp(TimeUnit::Second, Some("Nowhere/At_All".into())));
        assert!(subtitle(&unknown, &[NEW_YEAR_2024 + 60]).starts_with("2024-01-01 00:01 Nowhere/At_All, 1"));
        assert!(subtitle(&layout(DataType::Int64), &[NEW_YEAR_2024 * 1000]).starts_with("2024-01-01, 1"));
        assert!(subtitle(&layout(DataType::Int64), &[20_240_105]).starts_with("20240105, 1"));
        assert_eq!(time_axis(&KeySchema::default(), &[]), TimeAxis::Index);
    }
}
