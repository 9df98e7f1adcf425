//! Executor process: Ballista's, with our node, functions and one shared device.

use std::{
    convert::Infallible,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ballista_core::{config::TaskSchedulingPolicy, error::BallistaError, registry::BallistaFunctionRegistry};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::{execution::runtime_env::RuntimeEnvBuilder, prelude::SessionConfig};

use super::{free_port, host_port, status};
use crate::{
    codec::{LogicalCodec, PhysicalCodec},
    session::{self, Limits},
};

/// How an executor runs.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The scheduler it works for: `host:port`.
    pub scheduler: String,
    /// Where it listens.
    pub host: IpAddr,
    /// What others call this machine; `None` is the address it listens on.
    pub external_host: Option<String>,
    /// Port of the data that is shuffled; 0 is any.
    pub port: u16,
    /// Port of its orders; 0 is any.
    pub grpc_port: u16,
    /// Tasks at once.
    pub slots: usize,
    /// Bytes of all tasks together; `None` is a share of the machine's memory.
    pub memory: Option<u64>,
    /// Where shuffled data is kept.
    pub work_dir: PathBuf,
    /// Seconds between signs of life.
    pub heartbeat: u64,
}

/// Seconds to wait for a scheduler that is not there yet.
const PATIENCE: u16 = 30;

/// Works until the process is told to end.
pub async fn executor(options: &ExecutorOptions) -> Result<(), BallistaError> {
    let (scheduler_host, scheduler_port) = host_port(&options.scheduler).ok_or_else(|| {
        BallistaError::Configuration(format!(
            "`{}` is no address of a scheduler\n  hint: --scheduler HOST:PORT",
            options.scheduler
        ))
    })?;
    let port = |asked: u16| if asked == 0 { free_port(options.host) } else { Ok(asked) };
    let (port, grpc_port) = (port(options.port)?, port(options.grpc_port)?);
    let state =
        session::state(session::travelling(&Limits::default()), session::runtime(&Limits::default())?);
    let registry = BallistaFunctionRegistry::from(&state);
    let temporary = options.work_dir.clone();
    let config = ExecutorProcessConfig {
        bind_host: options.host.to_string(),
        external_host: Some(options.external_host.clone().unwrap_or_else(|| options.host.to_string())),
        port,
        grpc_port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: PATIENCE,
        vcores: options.slots,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(options.work_dir.display().to_string()),
        executor_heartbeat_interval_seconds: options.heartbeat,
        memory_pool_size: options.memory,
        override_function_registry: Some(Arc::new(registry)),
        override_runtime_producer: Some(Arc::new(move |_: &SessionConfig| {
            session::stored(RuntimeEnvBuilder::new().with_temp_file_path(&temporary)).build_arc()
        })),
        override_config_producer: Some(Arc::new(|| session::travelling(&Limits::default()))),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    tokio::select! {
        ended = start_executor_process(Arc::new(config)) => ended,
        never = sweep(options) => match never {},
    }
}

/// Removes what tasks write after their job has failed or was cancelled. Ballista removes it when that happens, once, and a
/// task that is just writing then writes on for a while.
async fn sweep(options: &ExecutorOptions) -> Infallible {
    loop {
        tokio::time::sleep(Duration::from_secs(options.heartbeat.max(1))).await;
        let directories = jobs(&options.work_dir);
        if directories.is_empty() {
            continue;
        }
        let Ok(said) = status(&options.scheduler).await else { continue };
        for (job, directory) in directories {
            if said.failed(&job) {
                // What cannot be removed now is tried again.
                let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
            }
        }
    }
}

/// Folders of jobs: their names, and where they are.
fn jobs(work_dir: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(work_dir) else { return Vec::new() };
    let directories = entries.filter_map(Result::ok).map(|e| e.path()).filter(|path| path.is_dir());
    directories.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect()
}
