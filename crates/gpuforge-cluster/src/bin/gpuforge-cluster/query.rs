//! Query runner: on a scheduler, or on one in this process; Ctrl-C cancels the job.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use arrow::array::RecordBatch;
use datafusion::{dataframe::DataFrame, prelude::ParquetReadOptions};
use futures::TryStreamExt as _;
use gpuforge_cluster::{
    Indicators as _,
    cluster::{Client, Embedded, Query},
    dataset::Staging,
    session::Limits,
    spec::Spec,
};
use serde_json::json;

use crate::{
    args::{Job, SchedulerArg, SqlArgs},
    json, out,
    output::RowSink,
    runtime,
};

/// A client, the runtime it lives on, and the cluster in this process if there is one.
struct LocalCluster {
    client: Client,
    runtime: tokio::runtime::Runtime,
    /// Ends after the client.
    _embedded: Option<Embedded>,
}

impl LocalCluster {
    fn open(place: &SchedulerArg, memory: Option<u64>) -> Result<LocalCluster> {
        let cores = std::thread::available_parallelism()?.get();
        let embedded = match &place.scheduler {
            Some(_) => None,
            None => {
                Some(Embedded::start(cores, memory).context("no cluster can be started in this process")?)
            }
        };
        let here = embedded.as_ref().map(|e| e.address().to_string());
        let address = place.scheduler.clone().or(here).unwrap_or_default();
        let limits = Limits {
            partitions: Some(place.partitions.unwrap_or(cores)),
            memory: memory.and_then(|m| usize::try_from(m).ok()),
        };
        let runtime = runtime()?;
        let client = runtime.block_on(Client::connect(&address, &limits))?;
        Ok(LocalCluster { client, runtime, _embedded: embedded })
    }
}

/// The longest that an interrupted query waits for its name.
const NAMED: Duration = Duration::from_secs(10);

/// Runs to the end, or to the user's interruption; every batch goes to `take`.
async fn drain(query: Query, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let ended = {
        let mut work = std::pin::pin!(async {
            let mut rows = query.stream()?;
            loop {
                match rows.try_next().await {
                    Ok(Some(batch)) => take(batch)?,
                    Ok(None) => return anyhow::Ok(()),
                    Err(error) => return Err(query.explain(error).await.into()),
                }
            }
        });
        tokio::select! {
            ended = &mut work => Some(ended),
            _ = tokio::signal::ctrl_c() => {
                // What the scheduler has not named yet cannot be cancelled; a scheduler that is gone needs no cancelling.
                let named = async { tokio::select! { _ = &mut work => {}, () = query.named() => {} } };
                let _ = tokio::time::timeout(NAMED, named).await;
                None
            }
        }
    };
    match ended {
        Some(Ok(())) => {
            query.finish().await;
            Ok(())
        }
        Some(Err(error)) => {
            query.cancel().await;
            Err(error)
        }
        None => {
            query.cancel().await;
            Err(anyhow!("interrupted: the query was cancelled"))
        }
    }
}

pub(crate) fn sql(args: &SqlArgs, memory: Option<u64>, as_json: bool) -> Result<String> {
    let bench = LocalCluster::open(&args.place, memory)?;
    bench.runtime.block_on(async {
        let session = &bench.client.session;
        for table in &args.tables {
            let (name, path) = table
                .split_once('=')
                .ok_or_else(|| anyhow!("`{table}` names no table\n  hint: --table bars=data/bars.parquet"))?;
            session.register_parquet(name, path, ParquetReadOptions::default()).await?;
        }
        let mut last = None;
        for statement in &args.statements {
            let query = bench.client.query(session.sql(statement).await?).await?;
            let mut sink = match &args.output {
                Some(path) => Some(RowSink::create(path, query.schema())?),
                None => None,
            };
            let mut rows = Vec::new();
            drain(query, |batch| match &mut sink {
                Some(sink) => sink.write(&batch),
                None => {
                    rows.push(batch);
                    Ok(())
                }
            })
            .await?;
            last = Some((sink, rows));
        }
        match last {
            Some((Some(sink), _)) => written(args.output.as_deref(), sink.finish()?, as_json),
            Some((None, rows)) if as_json => output::json_rows(&rows),
            Some((None, rows)) => output::table(&rows),
            None => bail!("no statement"),
        }
    })
}

fn written(path: Option<&Path>, rows: u64, as_json: bool) -> Result<String> {
    let path = path.unwrap_or(Path::new("-"));
    match as_json {
        true => json(&json!({ "output": path, "rows": rows })),
        false => Ok(format!("{rows} rows: {}\n", path.display())),
    }
}

/// The frame of a job: bars of all inputs, and the indicators.
async fn frame(client: &Client, job: &Job) -> Result<DataFrame> {
    let mut spec =
        Spec { define: job.define.clone(), device: job.device.clone(), ..Spec::of(job.select.join(", ")) };
    for column in &job.columns {
        spec = spec.with_columns(column).map_err(datafusion::error::DataFusionError::from)?;
    }
    let inputs = job.inputs.iter().map(|i| absolute(i)).collect::<Result<Vec<String>>>()?;
    let bars = client.session.read_parquet(inputs, ParquetReadOptions::default()).await?;
    Ok(bars.indicators_of(&spec)?)
}

/// A path as executors in other directories of this machine know it; addresses stay as they are.
fn absolute(path: &str) -> Result<String> {
    if path.contains("://") {
        return Ok(path.to_owned());
    }
    let found = std::fs::canonicalize(path).with_context(|| format!("cannot read {path}"))?;
    let directory = if found.is_dir() { "/" } else { "" };
    Ok(format!("{}{directory}", found.display()))
}

pub(crate) fn submit(job: &Job, memory: Option<u64>, as_json: bool) -> Result<String> {
    let bench = LocalCluster::open(&job.place, memory)?;
    bench.runtime.block_on(async {
        let query = bench.client.query(frame(&bench.client, job).await?).await?;
        let mut sink = RowSink::create(&job.output, query.schema())?;
        drain(query, |batch| sink.write(&batch)).await?;
        written(Some(&job.output), sink.finish()?, as_json)
    })
}

pub(crate) fn features(job: &Job, memory: Option<u64>, as_json: bool) -> Result<String> {
    let staging = Staging::new(&job.output)?;
    let bench = LocalCluster::open(&job.place, memory)?;
    bench.runtime.block_on(async {
        let query = staging.write(frame(&bench.client, job).await?)?;
        let mut rows = Vec::new();
        drain(bench.client.query(query).await?, |batch| {
            rows.push(batch);
            Ok(())
        })
        .await?;
        let parts = staging.publish(&rows)?;
        let all: u64 = parts.iter().map(|p| p.rows).sum();
        match as_json {
            true => json(&json!({ "output": job.output, "rows": all, "files": parts })),
            false => Ok(format!("{all} rows in {} files: {}\n", parts.len(), job.output.display())),
        }
    })
}
