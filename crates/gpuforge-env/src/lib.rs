//! GPU software environments: resolve framework wheels for a host, check a machine (doctor), diagnose logs (explain).
//!
//! ```text
//!  gpuforge env      Inventory ─► HostSpec ─► resolve ─► Candidate ─► plan_env ─► EnvPlan ─► render ─► files
//!  gpuforge doctor   SystemView ─► CHECKS ─► Finding ─► DoctorReport ─► text, JSON, bundle, fix script
//!  gpuforge explain  log ─► LogChunk ─► prefilter ─► regex search ─► ScanResult ─► Explanation (root cause, fix)
//! ```
//! All knowledge is in `data/*.toml`, embedded and replaceable by the user's files. Decisions are pure functions with
//! reasons. Table rows that were not read from a source are marked, and resolutions that depend on them say so. Nothing that a
//! log or a user's table names is ever run.
//!
//! | module | contents |
//! |---|---|
//! | [`data`] | loading embedded and user tables; errors with line and column |
//! | [`compat`] | compatibility matrix: table, versions, GPU lookup, host spec, build resolver |
//! | [`profiles`] | environment profiles, their fit to a host, the environment plan |
//! | [`render`] | one file per format: pip, uv, conda, pixi, Docker, Apptainer; the check script |
//! | [`doctor`] | checks (one file per subject), system view, runner, redaction, fix scripts |
//! | [`explain`] | log diagnosis: cleaning, literal prefilter, regex search, root cause ranking, fixes with undo |

pub mod compat;
pub mod data;
pub mod doctor;
pub mod explain;
pub mod profiles;
pub mod render;
