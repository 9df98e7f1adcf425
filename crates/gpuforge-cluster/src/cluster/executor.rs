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

/// Executor options.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// Scheduler address: `host:port`.
    pub scheduler: String,
    /// Listen address.
    pub host: IpAddr,
    /// Host name for others; `None` is the listen address.
    pub external_host: Option<String>,
    /// Shuffle port; 0 picks a free one.
    pub port: u16,
    /// gRPC port; 0 picks a free one.
    pub grpc_port: u16,
    /// Task slots.
    pub slots: usize,
    /// Memory limit of all tasks; `None` is a fraction of the machine's memory.
    pub memory: Option<u64>,
    /// Directory of shuffle data.
    pub work_dir: PathBuf,
    /// Heartbeat interval in seconds.
    pub heartbeat: u64,
}

/// Seconds to wait for a scheduler that is not up yet.
const SCHEDULER_CONNECT_SECONDS: u16 = 30;

/// Runs until the process is terminated.
pub async fn executor(options: &ExecutorOptions) -> Result<(), BallistaError> {
    let (scheduler_host, scheduler_port) = host_port(&options.scheduler).ok_or_else(|| {
        BallistaError::Configuration(format!(
            "`{}` is not a scheduler address\n  hint: --scheduler HOST:PORT",
            options.scheduler
        ))
    })?;
    let port = |asked: u16| if asked == 0 { free_port(options.host) } else { Ok(asked) };
    let (port, grpc_port) = (port(options.port)?, port(options.grpc_port)?);
    let state = session::state(
        session::distributed_config(&Limits::default()),
        session::runtime(&Limits::default())?,
    );
    let registry = BallistaFunctionRegistry::from(&state);
    let temporary = options.work_dir.clone();
    let config = ExecutorProcessConfig {
        bind_host: options.host.to_string(),
        external_host: Some(options.external_host.clone().unwrap_or_else(|| options.host.to_string())),
        port,
        grpc_port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: SCHEDULER_CONNECT_SECONDS,
        vcores: options.slots,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(options.work_dir.display().to_string()),
        executor_heartbeat_interval_seconds: options.heartbeat,
        memory_pool_size: options.memory,
        override_function_registry: Some(Arc::new(registry)),
        override_runtime_producer: Some(Arc::new(move |_: &SessionConfig| {
            session::with_object_stores(RuntimeEnvBuilder::new().with_temp_file_path(&temporary)).build_arc()
        })),
        override_config_producer: Some(Arc::new(|| session::distributed_config(&Limits::default()))),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
        ..ExecutorProcessConfig::default()
    };
    tokio::select! {
        ended = start_executor_process(Arc::new(config)) => ended,
        never = sweep(options) => match never {},
    }
}

/// Periodically removes shuffle data of failed and cancelled jobs. Ballista removes it once, at that moment, and a task that
/// is still writing recreates it.
async fn sweep(options: &ExecutorOptions) -> Infallible {
    loop {
        tokio::time::sleep(Duration::from_secs(options.heartbeat.max(1))).await;
        let directories = job_directories(&options.work_dir);
        if directories.is_empty() {
            continue;
        }
        let Ok(current) = status(&options.scheduler).await else { continue };
        for (job, directory) in directories {
            if current.failed(&job) {
                // Retried in the next round.
                let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
            }
        }
    }
}

/// Shuffle directories: job id and path.
fn job_directories(work_dir: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(work_dir) else { return Vec::new() };
    let directories = entries.filter_map(Result::ok).map(|e| e.path()).filter(|path| path.is_dir());
    directories.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect()
}
