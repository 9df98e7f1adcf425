//! Where did the time go? Reports, comparisons and live views of what gpuforge recorded.
//!
//! `trace` reads what a run left behind; `report` shows one run, `compare` two, `live` one that is still going.

pub mod compare;
pub mod live;
pub mod report;
pub mod trace;
