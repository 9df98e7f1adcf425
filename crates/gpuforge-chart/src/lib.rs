//! Candlestick and indicator charts as SVG, PNG or interactive HTML, and the SVG serializer of the whole workspace.
//!
//! ```text
//!   OhlcView ──► Chart ──► panes ──► layout ──► Scene (display list: rectangles, polylines, text, clips)
//!   TimeAxis     series    candles,  axes,        ├──► svg(): text stays text
//!                          volume,   legends,     ├──► png(): stroke font, no font files are read
//!                          panels    labels       └──► html(): the data as JSON, a script, the SVG inside <noscript>
//! ```
//! Columns are borrowed: this crate depends on no other crate of the workspace, so that those who only write SVG do not
//! build Arrow or Parquet. The conversion from files' bars is in the facade (`gpuforge::chart`).
//!
//! | module | what is in it |
//! |---|---|
//! | [`svg`] | SVG/XML serializer: [`svg::SvgWriter`], [`svg::escape`] |
//! | [`scene`] | display list: [`Scene`], [`scene::Item`]; `scene/svg.rs` and `scene/png.rs` render it |
//! | [`theme`] | colour palette for light and dark, colour-blind safe |
//! | `stroke_font` | single-stroke vector font of printable ASCII, text metrics |
//! | [`candlestick`] | [`Chart`], [`OhlcView`], [`ChartSeries`], [`Panel`] |
//! | `candlestick/pane.rs` | price, volume and indicator panes and their value ranges |
//! | `candlestick/value_axis.rs`, [`candlestick::time_axis`] | ticks at 1-2-5 steps, calendar labels |
//! | `candlestick/downsample.rs`, `aggregate.rs` | M4 line downsampling, bars merged into one candle |
//! | `candlestick/layout.rs`, `marks.rs` | pane geometry, legends, axes; series to rectangles and polylines |
//! | `candlestick/html.rs`, `chart.js`, `interaction.js`, `chart.css` | the interactive page |

pub mod candlestick;
pub mod error;
pub mod scene;
#[cfg_attr(not(feature = "png"), allow(dead_code, reason = "glyph outlines are drawn in PNG only"))]
mod stroke_font;
pub mod svg;
pub mod theme;

pub use candlestick::{
    CandleAggregation, Chart, ChartSeries, Mark, OhlcView, PanePlacement, Panel, time_axis::TimeAxis,
};
pub use error::ChartError;
pub use scene::Scene;
pub use theme::{Theme, ThemeColor};
