//! Cluster client: submits a query, streams its result, cancels it when the result is no longer wanted.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ballista::prelude::SessionContextExt as _;
use ballista_core::{
    execution_plans::DistributedQueryExec,
    serde::protobuf::{CancelJobParams, CleanJobDataParams, scheduler_grpc_client::SchedulerGrpcClient},
};
use datafusion::{
    dataframe::DataFrame,
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, execute_stream},
    prelude::SessionContext,
};
use datafusion_proto::protobuf::LogicalPlanNode;

use super::{damage, host_port};
use crate::session::{self, Limits};

/// How often is a query asked for its name?
const NAMING: std::time::Duration = std::time::Duration::from_millis(10);

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address cannot be read.
    #[error("`{0}` is no address of a scheduler\n  hint: HOST:PORT, such as 10.0.0.1:50050")]
    Address(String),
    /// A file of the input cannot be read.
    #[error("{file} is damaged: {why}\n  hint: copy or write it again")]
    Damaged {
        /// The file.
        file: String,
        /// What its reader says.
        why: String,
    },
    /// Something of DataFusion's or Ballista's.
    #[error(transparent)]
    Engine(#[from] DataFusionError),
}

/// A session on a cluster.
#[derive(Clone)]
pub struct Client {
    /// Its session: SQL, tables, settings.
    pub session: SessionContext,
    scheduler: String,
}

impl Client {
    /// A session on the cluster of a scheduler, `host:port`. Nothing is sent before the first query.
    pub async fn connect(address: &str, limits: &Limits) -> Result<Client, ClientError> {
        let (host, port) = host_port(address).ok_or_else(|| ClientError::Address(address.to_owned()))?;
        let state = session::state(session::travelling(limits), session::runtime(limits)?);
        let session = SessionContext::remote_with_state(&format!("df://{host}:{port}"), state).await?;
        session::teach(&session);
        Ok(Client { session, scheduler: format!("http://{host}:{port}") })
    }

    /// Plans a query, to be run.
    pub async fn query(&self, frame: DataFrame) -> Result<Query, ClientError> {
        let context = Arc::new(frame.task_ctx());
        let asked = frame.logical_plan().clone();
        let plan = frame.create_physical_plan().await?;
        let (session, scheduler) = (self.session.clone(), self.scheduler.clone());
        Ok(Query { plan, context, asked, session, scheduler, over: false })
    }
}

/// A query on a cluster. One that is dropped before it is finished is cancelled.
pub struct Query {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    asked: LogicalPlan,
    session: SessionContext,
    scheduler: String,
    over: bool,
}

impl Query {
    /// Columns of the result.
    pub fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }

    /// Runs it.
    pub fn stream(&self) -> Result<SendableRecordBatchStream, ClientError> {
        Ok(execute_stream(self.plan.clone(), self.context.clone())?)
    }

    /// The scheduler's name for it, once it has one.
    pub fn job(&self) -> Option<String> {
        let exec = self.plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?;
        exec.job_id().map(|id| id.to_string())
    }

    /// Returns when the scheduler has named it. A query that is cancelled before nobody can name to the scheduler, so that
    /// its stream must be read until then.
    pub async fn named(&self) {
        while self.job().is_none() {
            tokio::time::sleep(NAMING).await;
        }
    }

    /// Its result was read: what executors keep of it can go.
    pub async fn finish(mut self) {
        self.over = true;
        if let Some(job_id) = self.job() {
            clean(&self.scheduler, job_id).await;
        }
    }

    /// What an error of this query means: a file that is damaged is found and named.
    pub async fn explain(&self, error: DataFusionError) -> ClientError {
        match find_corrupt_file::damaged(&self.session, &self.asked, &error.to_string()).await {
            Some((file, why)) => ClientError::Damaged { file, why },
            None => error.into(),
        }
    }

    /// Stops it, and removes what executors keep of it.
    pub async fn cancel(mut self) {
        self.over = true;
        if let Some(job_id) = self.job() {
            cancel(&self.scheduler, job_id).await;
        }
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        if let (false, Some(job_id)) = (self.over, self.job())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let scheduler = self.scheduler.clone();
            runtime.spawn(async move { cancel(&scheduler, job_id).await });
        }
    }
}

async fn cancel(scheduler: &str, job_id: String) {
    let Ok(mut client) = SchedulerGrpcClient::connect(scheduler.to_owned()).await else { return };
    if let Err(error) = client.cancel_job(CancelJobParams { job_id: job_id.clone() }).await {
        log::warn!("job {job_id} could not be cancelled: {error}");
    }
    let _ = client.clean_job_data(CleanJobDataParams { job_id, remove_stage_ids: Vec::new() }).await;
}

async fn clean(scheduler: &str, job_id: String) {
    let Ok(mut client) = SchedulerGrpcClient::connect(scheduler.to_owned()).await else { return };
    if let Err(error) = client
        .clean_job_data(CleanJobDataParams { job_id: job_id.clone(), remove_stage_ids: Vec::new() })
        .await
    {
        log::warn!("what executors keep of job {job_id} stays: {error}");
    }
}
