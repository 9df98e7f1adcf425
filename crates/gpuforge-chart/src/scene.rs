//! Display list: rectangles, polylines, text and clips as plain data, rendered to SVG (`scene/svg.rs`) or PNG
//! (`scene/png.rs`).

#[cfg(feature = "png")]
pub(crate) mod png;
pub(crate) mod svg;

use crate::theme::{Theme, ThemeColor};

/// x to the right and y downwards, in pixels of the scene.
pub type Point = (f64, f64);

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Rect {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// Horizontal alignment of a text at its point (SVG `text-anchor`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text starts at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// A draw command.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Rectangles of one style.
    Rects {
        /// Positions.
        rects: Vec<Rect>,
        /// Fill colour.
        fill: ThemeColor,
        /// Colour of a one-pixel outline.
        stroke: Option<ThemeColor>,
    },
    /// Polylines of one style.
    Polylines {
        /// Points of each.
        lines: Vec<Vec<Point>>,
        /// Stroke colour.
        color: ThemeColor,
        /// Stroke width.
        width: f64,
        /// Dash pattern: lengths on and off by turns; empty is solid.
        dash: &'static [f64],
    },
    /// A line of text.
    Text {
        /// Position on the baseline.
        at: Point,
        /// Any characters; renderers escape them.
        text: String,
        /// Colour.
        color: ThemeColor,
        /// Font size in pixels.
        size: f64,
        /// Alignment.
        anchor: Anchor,
        /// Semi-bold weight.
        bold: bool,
    },
    /// Items clipped to a rectangle.
    Clip {
        /// The clip rectangle.
        rect: Rect,
        /// What is clipped.
        items: Vec<Item>,
    },
}

/// A whole drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// In pixels.
    pub width: f64,
    /// In pixels; more than requested where the panels need it.
    pub height: f64,
    /// Accessible title (SVG `<title>`).
    pub title: String,
    /// Accessible description (SVG `<desc>`).
    pub description: String,
    /// Draw commands in painter's order: the first is at the bottom.
    pub items: Vec<Item>,
}

impl Scene {
    /// Renders SVG; text stays text, and nothing is fetched.
    pub fn svg(&self, theme: Theme) -> String {
        svg::render(self, theme)
    }
}
