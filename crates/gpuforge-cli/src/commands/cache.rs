//! `gpuforge cache`: lists and clears the detection cache and the compiled pipelines.

use std::{fmt::Write as _, time::SystemTime};

use anyhow::{Context as _, Result};
use gpuforge::{detection, hardware::cache::fingerprint};
use serde_json::json;

use crate::{
    args::upkeep::Cache,
    context::{Context, env},
    format::{age, plural, size},
    output::{CARE, DIM},
};

pub(crate) fn run(args: &Cache, context: &Context) -> Result<()> {
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    let store = detection::detection_cache(settings, &places);
    match args {
        Cache::Show => {
            let own = fingerprint(&gpuforge::hardware::probe::filesystem::RealFs, &env);
            let entries = store.entries(&own, SystemTime::now());
            let pipelines = detection::pipeline_files(&places);
            let compiled: u64 = pipelines.iter().map(|(_, bytes)| bytes).sum();
            if context.out.json {
                return context.out.json(&json!({
                    "dir": store.dir(), "enabled": settings.cache_enabled(),
                    "ttl_s": settings.cache_ttl().as_secs_f64(), "entries": entries,
                    "pipelines": { "files": pipelines.len(), "bytes": compiled },
                }));
            }
            let mut out = format!("{}\n", store.dir().display());
            if entries.is_empty() {
                out.push_str("  empty\n");
            }
            for entry in entries {
                let name = entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let old = entry.age_s.and_then(|s| std::time::Duration::try_from_secs_f64(s).ok()).map(age);
                let old = old.map_or_else(|| "age unknown".to_owned(), |a| format!("{a} old"));
                let _ = write!(out, "  {name}  {}, {old}", size(entry.bytes));
                if let Some(problem) = entry.problem {
                    let _ = writeln!(out, "  {CARE}{problem}{CARE:#}");
                } else {
                    let state = if entry.current { "in use" } else { "not in use" };
                    let _ = writeln!(out, "  {state}  {DIM}{}{DIM:#}", entry.gpus.join(", "));
                }
            }
            if !pipelines.is_empty() {
                let _ = writeln!(
                    out,
                    "  compiled pipelines: {}, {}",
                    size(compiled),
                    plural(pipelines.len() as u64, "file")
                );
            }
            context.out.text(&out)
        }
        Cache::Clear => {
            let mut removed =
                store.clear().with_context(|| format!("cannot clear {}", store.dir().display()))?;
            for (file, _) in detection::pipeline_files(&places) {
                std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
                removed += 1;
            }
            if context.out.json {
                return context.out.json(&json!({ "removed": removed }));
            }
            context.out.text(&format!("removed {removed} entries from {}\n", store.dir().display()))
        }
    }
}
