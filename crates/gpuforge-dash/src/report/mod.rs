//! Trace report: a self-contained HTML page, terminal summary, JSON, CSV, folded stacks and flame graph SVG.
//!
//! ```text
//! Trace ─► TraceReport (statistics, suggestions) ─┬─► terminal, JSON, CSV            (CLI, csv)
//!    │                                            └─► HTML: tables, memory chart     (html, memory_chart)
//!    ├─► FlameGraph (merged stacks) ─► folded stacks, SVG, HTML                      (flame, flame_svg)
//!    └─► TimelineData (packed columns, short spans merged) ─► timeline canvas         (timeline)
//! ```
//! A page is one file without network access: its content security policy allows the hash of its own script only.

mod csv;
pub mod flame;
mod flame_svg;
mod html;
pub mod html_page;
mod memory_chart;
mod suggestions;
mod timeline;
mod trace_report;
pub mod units;

pub use flame::FlameGraph;
pub use suggestions::Suggestion;
pub use timeline::{MAX_SPANS, TimelineData};
pub use trace_report::{CategoryTime, SpanRow, TraceReport, VERSION};
