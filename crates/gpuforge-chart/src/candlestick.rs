//! Candlestick chart with overlays, volume and indicator panels: a [`Chart`] is data, laid out as a [`Scene`] and rendered
//! as SVG, PNG or an interactive page.
//!
//! The x axis is the bar index: nights and weekends take no room. More bars than pixels are aggregated without losing an
//! extreme, and the chart says how many bars a candle stands for. Missing values (NaN, infinite, above 1e300) are not
//! drawn and break a line.

mod aggregate;
mod downsample;
mod html;
mod layout;
mod marks;
mod pane;
pub mod time_axis;
mod value_axis;

pub use aggregate::CandleAggregation;
use time_axis::TimeAxis;
use value_axis::Range;

#[cfg(feature = "png")]
use crate::error::ChartError;
use crate::{scene::Scene, theme::Theme};

/// How far a column may leave the price range, as a factor, and still be an overlay.
const OVERLAY_REACH: f64 = 1.5;

/// Borrowed OHLCV columns of one symbol, the oldest bar first. Columns that are missing are empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OhlcView<'a> {
    /// Times of the bars.
    pub time: &'a TimeAxis,
    /// Opening prices.
    pub open: &'a [f64],
    /// Highest prices.
    pub high: &'a [f64],
    /// Lowest prices.
    pub low: &'a [f64],
    /// Closing prices.
    pub close: &'a [f64],
    /// Volumes.
    pub volume: &'a [f64],
}

impl<'a> OhlcView<'a> {
    /// Bars with times and no columns yet.
    pub fn new(time: &'a TimeAxis) -> OhlcView<'a> {
        OhlcView { time, open: &[], high: &[], low: &[], close: &[], volume: &[] }
    }

    /// Number of bars: the longest column.
    pub fn len(&self) -> usize {
        let columns = [self.open, self.high, self.low, self.close, self.volume];
        columns.iter().map(|c| c.len()).max().unwrap_or(0).max(self.time.len())
    }

    /// No bars.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// A line.
    #[default]
    Line,
    /// A bar from zero for each value.
    Histogram,
    /// A dot for each value; for those that jump (parabolic SAR).
    Dots,
}

/// A named column with its mark.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartSeries<'a> {
    /// Its name in the legend.
    pub name: String,
    /// A value per bar; those beyond the last bar are not drawn.
    pub values: &'a [f64],
    /// How it is drawn.
    pub mark: Mark,
}

impl<'a> ChartSeries<'a> {
    /// A line series.
    pub fn new(name: impl Into<String>, values: &'a [f64]) -> ChartSeries<'a> {
        ChartSeries { name: name.into(), values, mark: Mark::Line }
    }

    /// The same series with another mark.
    pub fn mark(self, mark: Mark) -> ChartSeries<'a> {
        ChartSeries { mark, ..self }
    }
}

/// Series on a value axis of their own, below the price.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel<'a> {
    /// Title in the legend.
    pub title: String,
    /// Its series.
    pub series: Vec<ChartSeries<'a>>,
    /// Values with a dashed horizontal line, e.g. 30 and 70.
    pub levels: Vec<f64>,
    /// Two values with a tinted area between them.
    pub band: Option<(f64, f64)>,
    /// Fixed ends of the axis; `None` scales to the values.
    pub bounds: Option<(f64, f64)>,
}

/// A chart: bars, overlays, panels and style.
#[derive(Debug, Clone)]
pub struct Chart<'a> {
    /// Title on top.
    pub title: String,
    /// Candles where all four prices are there, else a line of what there is; volume below.
    pub bars: OhlcView<'a>,
    /// Series over the prices.
    pub overlays: Vec<ChartSeries<'a>>,
    /// Panels below.
    pub panels: Vec<Panel<'a>>,
    /// Width and height in pixels. A drawing becomes higher where its panels need it; a page fills its window.
    pub size: (u32, u32),
    /// Its colours.
    pub theme: Theme,
}

impl<'a> Chart<'a> {
    /// Bars without indicators.
    pub fn new(title: impl Into<String>, bars: OhlcView<'a>) -> Chart<'a> {
        let (overlays, panels) = (Vec::new(), Vec::new());
        Chart { title: title.into(), bars, overlays, panels, size: (1200, 800), theme: Theme::Auto }
    }

    /// Lays the chart out as a display list.
    pub fn scene(&self) -> Scene {
        layout::scene(self)
    }

    /// How many bars one candle stands for in a drawing of this size. A page decides by its window.
    pub fn aggregation(&self) -> CandleAggregation {
        aggregate::aggregation(self)
    }

    /// How many candles a drawing of this size has room for.
    pub fn max_candles(&self) -> usize {
        aggregate::max_candles(self)
    }

    /// Renders one self-contained SVG file.
    pub fn svg(&self) -> String {
        self.scene().svg(self.theme)
    }

    /// Renders one self-contained HTML page with crosshair, zoom and a legend that hides series.
    pub fn html(&self) -> String {
        html::render(self)
    }

    /// Renders a PNG file with `scale` pixels per pixel of the scene.
    ///
    /// # Errors
    /// The scale is not positive, or the picture is too large.
    #[cfg(feature = "png")]
    pub fn png(&self, scale: f64) -> Result<Vec<u8>, ChartError> {
        crate::scene::png::render(&self.scene(), self.theme, scale)
    }
}

/// Where a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanePlacement {
    /// Over the prices.
    Overlay,
    /// In a panel of its own.
    Panel,
}

impl PanePlacement {
    /// For a column of which nothing is known: an overlay if all its values lie between two thirds of the lowest and one
    /// and a half times the highest price. A column without values is an overlay and takes no room.
    pub fn guess(values: &[f64], bars: &OhlcView<'_>) -> PanePlacement {
        let Some(column) = Range::of(values.iter().copied()) else { return PanePlacement::Overlay };
        let prices = [bars.low, bars.high, bars.close, bars.open];
        let Some(price) = Range::of(prices.into_iter().flatten().copied()) else {
            return PanePlacement::Panel;
        };
        // Away from the prices, on either side of zero.
        let low = if price.low > 0.0 { price.low / OVERLAY_REACH } else { price.low * OVERLAY_REACH };
        let high = if price.high > 0.0 { price.high * OVERLAY_REACH } else { price.high / OVERLAY_REACH };
        if column.low >= low && column.high <= high { PanePlacement::Overlay } else { PanePlacement::Panel }
    }
}
