//! Trace reports, run comparison and live monitoring of profiles that gpuforge recorded.
//!
//! ```text
//!   trace file ──► trace::read ──► Trace ─┬─► report::TraceReport ──► HTML page, terminal, JSON, CSV
//!                                         ├─► report::FlameGraph  ──► folded stacks, SVG
//!                                         └─► compare::RunSet ─┬─► compare() ──► Comparison ──► HTML, JSON, exit code
//!                           compare::baseline::BaselineStore ──┘
//!   running process ──► live::publisher ──(Unix socket, one JSON snapshot per line)──► live::follower ──► tracker
//!                                                   ──► LiveView ──► terminal UI, web page (SSE), Prometheus metrics
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`trace`] | trace files: reading, error diagnosis; `conventions.rs`: names with a meaning (memory, routing, recovery) |
//! | [`report`] | `trace_report.rs` statistics, `suggestions.rs` rules, `timeline.rs` packed timeline, `flame.rs` flame graph, `flame_svg.rs`, `memory_chart.rs`, `html.rs`, `csv.rs`, `html_page/` page template, CSS and JavaScript |
//! | [`compare`] | `runs.rs` sampled durations, `verdict.rs` regression verdict, `rank_test.rs` Mann-Whitney, Wilcoxon and Holm, `distributions.rs` tails, `bootstrap.rs` confidence intervals, `stacks.rs` and `diff_flame.rs` differential flame graph, `baseline.rs` stored baselines, `load.rs`, `html.rs` |
//! | [`live`] | publisher side: `feed.rs`, `snapshot.rs`, `publisher.rs`, `socket_dir.rs`; viewer side: `follower.rs`, `tracker.rs`, `robust_stats.rs`, `view.rs`, `tui.rs`, `plain_text.rs`, `web.rs`, `prometheus.rs` |

pub mod compare;
pub mod live;
pub mod report;
pub mod trace;
