//! Embedded cluster: scheduler and executor in this process, on their own runtime, on loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ballista_core::error::BallistaError;
use tempfile::TempDir;

use super::{ExecutorOptions, Scheduler, SchedulerOptions, executor};

/// A scheduler and an executor that are shut down on drop, shuffle data included.
pub struct Embedded {
    /// `None` only while it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
    address: SocketAddr,
    _work: TempDir,
}

impl Embedded {
    /// Starts both and waits until the executor has registered. Must not be called from an async runtime.
    pub fn start(slots: usize, memory: Option<u64>) -> Result<Embedded, BallistaError> {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let work = TempDir::with_prefix("gpuforge-cluster-")?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("embedded").build()?;
        let options = SchedulerOptions { host, port: 0, external_host: None, executor_timeout: 60 };
        let scheduler = runtime.block_on(Scheduler::start(&options))?;
        let address = scheduler.address();
        runtime.spawn(scheduler.serve());
        let options = ExecutorOptions {
            scheduler: address.to_string(),
            host,
            external_host: None,
            port: 0,
            grpc_port: 0,
            slots,
            memory,
            work_dir: work.path().to_owned(),
            heartbeat: 10,
        };
        let mut running = runtime.spawn(async move { executor(&options).await });
        runtime.block_on(async {
            for _ in 0..600 {
                if super::status(&address.to_string()).await.is_ok_and(|s| !s.executors.is_empty()) {
                    return Ok(());
                }
                let pause = tokio::time::timeout(std::time::Duration::from_millis(50), &mut running);
                if let Ok(ended) = pause.await {
                    let why = ended.map_err(|e| e.to_string()).and_then(|r| r.map_err(|e| e.to_string()));
                    return Err(BallistaError::General(format!("the embedded executor ended: {why:?}")));
                }
            }
            Err(BallistaError::General("the embedded executor did not register within 30 s".to_owned()))
        })?;
        Ok(Embedded { runtime: Some(runtime), address, _work: work })
    }

    /// Address of the scheduler.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Running tasks are not awaited: their results can no longer be fetched.
            runtime.shutdown_background();
        }
    }
}
