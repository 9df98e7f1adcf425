//! How do bars and columns look? One drawing as data, written as SVG, PNG, or a page that can be zoomed.
//!
//! ```text
//!   Chart ──► panes ──► Scene: rectangles, lines, text ──► svg(): text stays text
//!   bars, columns        thin.rs: what many bars     ├──► png(): own stroke font, no font is looked for
//!                        leave on few pixels         └──► html(): the data, a script, and the SVG where scripts are off
//! ```
//! Bars stand side by side: nights and weekends take no room. More bars than pixels are merged without losing an
//! extreme, and the drawing says how many are one. Missing values (NaN, infinite, above 1e300) are not drawn and break a line.

mod axis;
mod clock;
mod draw;
mod font;
mod html;
mod marks;
mod merge;
mod pane;
mod png;
pub mod scene;
mod svg;
mod theme;
mod thin;

use axis::Range;
pub use merge::Merged;
pub use scene::Scene;
pub use theme::{Ink, Theme};

use crate::{
    bars::{Bars, Layout},
    error::FrameError,
};

/// How far a column may leave the range of prices, as a factor, and still be drawn over them.
const REACH: f64 = 1.5;

/// How a column is drawn.
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

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Line<'a> {
    /// Its name in the legend.
    pub name: String,
    /// A value per bar; those beyond the last bar are not drawn.
    pub values: &'a [f64],
    /// How it is drawn.
    pub mark: Mark,
}

impl<'a> Line<'a> {
    /// A column as a line.
    pub fn new(name: impl Into<String>, values: &'a [f64]) -> Line<'a> {
        Line { name: name.into(), values, mark: Mark::Line }
    }

    /// Drawn like this.
    pub fn mark(self, mark: Mark) -> Line<'a> {
        Line { mark, ..self }
    }
}

/// Columns on an axis of their own, below the price.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel<'a> {
    /// What is on top of it.
    pub title: String,
    /// Its columns.
    pub lines: Vec<Line<'a>>,
    /// Values with a dashed line of their own, e.g. 30 and 70.
    pub levels: Vec<f64>,
    /// Two values with a tinted area between them.
    pub band: Option<(f64, f64)>,
    /// Ends of the axis; `None` is what the values need.
    pub bounds: Option<(f64, f64)>,
}

/// What is to be drawn.
#[derive(Debug, Clone)]
pub struct Chart<'a> {
    /// What is on top.
    pub title: String,
    /// What the bars' times are.
    pub layout: &'a Layout,
    /// The bars: candles where they have all four prices, else a line of what there is; volumes below.
    pub bars: &'a Bars,
    /// Columns over the prices.
    pub overlays: Vec<Line<'a>>,
    /// Columns below.
    pub panels: Vec<Panel<'a>>,
    /// Width and height in pixels. A drawing becomes higher where its panels need it; a page fills its window.
    pub size: (u32, u32),
    /// Its colours.
    pub theme: Theme,
}

impl<'a> Chart<'a> {
    /// Bars without columns, titled by their symbol.
    pub fn new(layout: &'a Layout, bars: &'a Bars) -> Chart<'a> {
        let title = bars.symbol.as_ref().map(ToString::to_string).unwrap_or_default();
        let (overlays, panels) = (Vec::new(), Vec::new());
        Chart { title, layout, bars, overlays, panels, size: (1200, 800), theme: Theme::Auto }
    }

    /// The drawing.
    pub fn scene(&self) -> Scene {
        draw::scene(self)
    }

    /// What is merged where there are more bars than a drawing of this size has room for. A page says it by its window.
    pub fn merged(&self) -> Merged {
        merge::merged(self)
    }

    /// How many candles a drawing of this size has room for.
    pub fn most_candles(&self) -> usize {
        merge::room(self)
    }

    /// As one SVG file. Needs nothing from elsewhere.
    pub fn svg(&self) -> String {
        svg::write(&self.scene(), self.theme)
    }

    /// As one page with a crosshair, zoom and a legend that hides columns. Needs nothing from elsewhere.
    pub fn html(&self) -> String {
        html::write(self)
    }

    /// As a PNG file, with this many pixels of the file for one of the scene.
    ///
    /// # Errors
    /// A scale that is not positive, or a picture too large for memory.
    pub fn png(&self, scale: f64) -> Result<Vec<u8>, FrameError> {
        png::write(&self.scene(), self.theme, scale)
    }
}

/// Where a column is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Over the prices.
    Overlay,
    /// In a panel of its own.
    Panel,
}

impl Placement {
    /// For a column of which nothing is known: over the prices if all its values lie between two thirds of the lowest and
    /// one and a half times the highest price. A column without values takes no room of its own.
    pub fn guess(values: &[f64], bars: &Bars) -> Placement {
        let Some(column) = Range::of(values.iter().copied()) else { return Placement::Overlay };
        let prices = [&bars.low, &bars.high, &bars.close, &bars.open];
        let Some(price) = Range::of(prices.into_iter().flatten().copied()) else { return Placement::Panel };
        // Away from the prices, whichever side of zero they are on.
        let low = if price.low > 0.0 { price.low / REACH } else { price.low * REACH };
        let high = if price.high > 0.0 { price.high * REACH } else { price.high / REACH };
        if column.low >= low && column.high <= high { Placement::Overlay } else { Placement::Panel }
    }
}
