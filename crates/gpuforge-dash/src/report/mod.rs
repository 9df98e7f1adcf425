//! How is one run shown? A page that needs nothing else, a summary in the terminal, exports.
//!
//! ```text
//! Trace ─► Report (figures, suggestions: plain data) ─┬─► terminal, JSON, CSV          (the binary, csv)
//!    │                                                └─► page: tables, memory         (html, memory)
//!    ├─► Flame (stacks that were merged) ─► folded, SVG, page                          (flame, svg)
//!    └─► Columns (packed; what is too short to be seen is merged) ─► timeline of the page (columns)
//! ```
//! A page is one file without a network: its policy allows the hash of its own script and nothing else.

mod columns;
mod csv;
mod figures;
pub mod flame;
mod html;
mod memory;
pub mod page;
mod suggest;
mod svg;
pub mod units;

pub use columns::{Columns, MOST_SPANS};
pub use figures::{Part, Report, Row, VERSION};
pub use flame::Flame;
pub use suggest::Suggestion;
