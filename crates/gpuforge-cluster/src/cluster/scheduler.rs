//! Scheduler process: Ballista's, with our session extensions.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ballista_core::{config::TaskSchedulingPolicy, error::BallistaError};
use ballista_scheduler::{
    cluster::BallistaCluster,
    config::SchedulerConfig,
    scheduler_process::{create_scheduler, start_grpc_service_with_listener},
    scheduler_server::SchedulerServer,
};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};

use super::slots::TaskSlots;
use crate::{
    codec::{LogicalCodec, PhysicalCodec},
    session::{self, Limits},
};

/// Scheduler options.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// Listen address.
    pub host: IpAddr,
    /// Port; 0 picks a free one.
    pub port: u16,
    /// Host name for others; `None` is the listen address.
    pub external_host: Option<String>,
    /// Heartbeat timeout in seconds after which an executor's tasks are rescheduled.
    pub executor_timeout: u64,
}

/// A bound scheduler.
pub struct Scheduler {
    listener: tokio::net::TcpListener,
    server: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    address: SocketAddr,
}

impl Scheduler {
    /// Binds the port and starts.
    pub async fn start(options: &SchedulerOptions) -> Result<Scheduler, BallistaError> {
        let listener = tokio::net::TcpListener::bind((options.host, options.port)).await?;
        let address = listener.local_addr()?;
        let config = SchedulerConfig {
            external_host: options.external_host.clone().unwrap_or_else(|| options.host.to_string()),
            bind_host: options.host.to_string(),
            bind_port: address.port(),
            scheduling_policy: TaskSchedulingPolicy::PushStaged,
            executor_timeout_seconds: options.executor_timeout,
            expire_dead_executor_interval_seconds: (options.executor_timeout / 2).max(1),
            no_executors_grace_period_seconds: options.executor_timeout,
            override_logical_codec: Some(Arc::new(LogicalCodec::default())),
            override_physical_codec: Some(Arc::new(PhysicalCodec::default())),
            override_config_producer: Some(Arc::new(|| session::distributed_config(&Limits::default()))),
            override_session_builder: Some(Arc::new(|config: SessionConfig| {
                session::scheduler_state(config)
            })),
            ..SchedulerConfig::default()
        };
        config.validate()?;
        let jobs = BallistaCluster::new_from_config(&config).await?.job_state();
        let cluster = BallistaCluster::new(Arc::new(TaskSlots::default()), jobs);
        let server = create_scheduler(cluster, Arc::new(config)).await?;
        Ok(Scheduler { listener, server, address })
    }

    /// Listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub async fn serve(self) -> Result<(), BallistaError> {
        start_grpc_service_with_listener(self.listener, self.server).await
    }
}
