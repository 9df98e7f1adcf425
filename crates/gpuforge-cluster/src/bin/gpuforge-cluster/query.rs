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
    json,
    output::{self, RowSink},
    runtime,
};

/// A client, its runtime, and the embedded cluster if there is one.
struct LocalCluster {
    client: Client,
    runtime: tokio::runtime::Runtime,
    /// Dropped after the client.
    _embedded: Option<Embedded>,
}

impl LocalCluster {
    fn open(target: &SchedulerArg, memory: Option<u64>) -> Result<LocalCluster> {
        let cores = std::thread::available_parallelism()?.get();
        let embedded = match &target.scheduler {
            Some(_) => None,
            None => {
                Some(Embedded::start(cores, memory).context("no cluster can be started in this process")?)
            }
        };
        let embedded_address = embedded.as_ref().map(|e| e.address().to_string());
        let address = target.scheduler.clone().or(embedded_address).unwrap_or_default();
        let limits = Limits {
            partitions: Some(target.partitions.unwrap_or(cores)),
            memory: memory.and_then(|m| usize::try_from(m).ok()),
        };
        let runtime = runtime()?;
        let client = runtime.block_on(Client::connect(&address, &limits))?;
        Ok(LocalCluster { client, runtime, _embedded: embedded })
    }
}

/// Deadline of an interrupted query for its job id.
const JOB_ID_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs to the end or until Ctrl-C; every batch goes to `take`.
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
                // Without a job id nothing can be cancelled; if the scheduler is gone, nothing needs to be.
                let named = async { tokio::select! { _ = &mut work => {}, () = query.wait_for_job_id() => {} } };
                let _ = tokio::time::timeout(JOB_ID_TIMEOUT, named).await;
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
    let cluster = LocalCluster::open(&args.target, memory)?;
    cluster.runtime.block_on(async {
        let session = &cluster.client.session;
        for table in &args.tables {
            let (name, path) = table
                .split_once('=')
                .ok_or_else(|| anyhow!("`{table}` names no table\n  hint: --table bars=data/bars.parquet"))?;
            session.register_parquet(name, path, ParquetReadOptions::default()).await?;
        }
        let mut last = None;
        for statement in &args.statements {
            let query = cluster.client.query(session.sql(statement).await?).await?;
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

/// DataFrame of a job: bars of all inputs with their indicators.
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
    let cluster = LocalCluster::open(&job.target, memory)?;
    cluster.runtime.block_on(async {
        let query = cluster.client.query(frame(&cluster.client, job).await?).await?;
        let mut sink = RowSink::create(&job.output, query.schema())?;
        drain(query, |batch| sink.write(&batch)).await?;
        written(Some(&job.output), sink.finish()?, as_json)
    })
}

pub(crate) fn features(job: &Job, memory: Option<u64>, as_json: bool) -> Result<String> {
    let staging = Staging::new(&job.output)?;
    let cluster = LocalCluster::open(&job.target, memory)?;
    cluster.runtime.block_on(async {
        let query = staging.write(frame(&cluster.client, job).await?)?;
        let mut rows = Vec::new();
        drain(cluster.client.query(query).await?, |batch| {
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
