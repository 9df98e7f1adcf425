//! What is drawn? Rectangles, lines and text at their places, as plain data that every format can write.

use super::{
    svg,
    theme::{Ink, Theme},
};

/// x to the right and y downwards, in pixels of the scene.
pub type Point = (f64, f64);

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// Which end of a text stands at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// A part of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Rectangles of one look.
    Rects {
        /// Where.
        areas: Vec<Area>,
        /// Inside.
        fill: Ink,
        /// A line of one pixel along the edges.
        edge: Option<Ink>,
    },
    /// Lines of one look; each is drawn without lifting the pen.
    Lines {
        /// Points of each.
        lines: Vec<Vec<Point>>,
        /// Colour.
        ink: Ink,
        /// Thickness.
        width: f64,
        /// Lengths drawn and left out by turns; empty is solid.
        dash: &'static [f64],
    },
    /// A line of text.
    Text {
        /// On the baseline.
        at: Point,
        /// What it says; any characters.
        text: String,
        /// Colour.
        ink: Ink,
        /// Height of the letters with room, in pixels.
        size: f64,
        /// Which end is at the point.
        anchor: Anchor,
        /// Heavier?
        bold: bool,
    },
    /// Parts of which only what is inside an area is seen.
    Inside {
        /// The area.
        area: Area,
        /// The parts.
        items: Vec<Item>,
    },
}

/// A whole drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// In pixels.
    pub width: f64,
    /// In pixels; more than was asked for where the panels need it.
    pub height: f64,
    /// What it is, for those who do not see it.
    pub title: String,
    /// What it shows, for those who do not see it.
    pub says: String,
    /// Its parts, the lowest first.
    pub items: Vec<Item>,
}

impl Scene {
    /// The drawing as SVG; text stays text, and nothing is fetched.
    pub fn svg(&self, theme: Theme) -> String {
        svg::write(self, theme)
    }
}
