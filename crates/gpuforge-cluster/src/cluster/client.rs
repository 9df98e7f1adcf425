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

use super::{find_corrupt_file::find_corrupt_file, host_port};
use crate::session::{self, Limits};

/// Poll interval for the job id.
const JOB_ID_POLL: std::time::Duration = std::time::Duration::from_millis(10);

/// Client errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Invalid scheduler address.
    #[error("`{0}` is not a scheduler address\n  hint: HOST:PORT, such as 10.0.0.1:50050")]
    Address(String),
    /// A corrupt input file.
    #[error("{file} is corrupt: {why}\n  hint: copy or write it again")]
    CorruptFile {
        /// The file.
        file: String,
        /// The reader's error.
        why: String,
    },
    /// An error of DataFusion or Ballista.
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
        let state = session::state(session::distributed_config(limits), session::runtime(limits)?);
        let session = SessionContext::remote_with_state(&format!("df://{host}:{port}"), state).await?;
        session::register_functions(&session);
        Ok(Client { session, scheduler: format!("http://{host}:{port}") })
    }

    /// Plans a query.
    pub async fn query(&self, frame: DataFrame) -> Result<Query, ClientError> {
        let context = Arc::new(frame.task_ctx());
        let logical_plan = frame.logical_plan().clone();
        let plan = frame.create_physical_plan().await?;
        let (session, scheduler) = (self.session.clone(), self.scheduler.clone());
        Ok(Query { plan, context, logical_plan, session, scheduler, finished: false })
    }
}

/// A query on a cluster; cancelled when dropped before it is finished.
pub struct Query {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    logical_plan: LogicalPlan,
    session: SessionContext,
    scheduler: String,
    finished: bool,
}

impl Query {
    /// Schema of the result.
    pub fn schema(&self) -> SchemaRef {
        self.plan.schema()
    }

    /// Starts the query.
    pub fn stream(&self) -> Result<SendableRecordBatchStream, ClientError> {
        Ok(execute_stream(self.plan.clone(), self.context.clone())?)
    }

    /// Job id, once the scheduler has assigned one.
    pub fn job_id(&self) -> Option<String> {
        let exec = self.plan.downcast_ref::<DistributedQueryExec<LogicalPlanNode>>()?;
        exec.job_id().map(|id| id.to_string())
    }

    /// Waits for the job id. A query without one cannot be cancelled, so its stream must be polled until then.
    pub async fn wait_for_job_id(&self) {
        while self.job_id().is_none() {
            tokio::time::sleep(JOB_ID_POLL).await;
        }
    }

    /// Call when the result was read: executors drop its shuffle data.
    pub async fn finish(mut self) {
        self.finished = true;
        if let Some(job_id) = self.job_id() {
            clean(&self.scheduler, job_id).await;
        }
    }

    /// Explains an error: if a Parquet file is corrupt, names it.
    pub async fn explain(&self, error: DataFusionError) -> ClientError {
        match find_corrupt_file(&self.session, &self.logical_plan, &error.to_string()).await {
            Some((file, why)) => ClientError::CorruptFile { file, why },
            None => error.into(),
        }
    }

    /// Cancels the job and removes its shuffle data from executors.
    pub async fn cancel(mut self) {
        self.finished = true;
        if let Some(job_id) = self.job_id() {
            cancel(&self.scheduler, job_id).await;
        }
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        if let (false, Some(job_id)) = (self.finished, self.job_id())
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
        log::warn!("shuffle data of job {job_id} was not removed: {error}");
    }
}
