//! Task slots: an executor gets as many tasks as it has slots, minus those that running jobs hold.
//!
//! Ballista's own state counts instead: a task that begins takes a slot, the message that it ended gives it back. Where
//! an executor dies, stages that had begun on others begin again, their tasks are cancelled, and the messages that they
//! ended belong to nothing any more: those slots were never given back, and a job on an executor with one slot waited for
//! ever (Ballista 55; `tests/processes.rs` kills an executor). What is looked up cannot be forgotten.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use ballista_core::{
    JobId,
    error::Result,
    serde::{
        protobuf::ExecutorHeartbeat,
        scheduler::{ExecutorData, ExecutorMetadata},
    },
};
use ballista_scheduler::{
    cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot, memory::InMemoryClusterState},
    config::TaskDistributionPolicy,
    state::task_manager::JobInfoCache,
};
use tokio::sync::Mutex;

/// Ballista's state of a cluster, but for the slots that are free.
#[derive(Default)]
pub(super) struct Slots {
    inner: InMemoryClusterState,
    /// Slots of every executor. HandOver while tasks are handed out, so that nobody else sees the jobs in between.
    all: Mutex<HashMap<String, u32>>,
}

/// Slots that tasks of these jobs take, by executor.
async fn taken(jobs: &HashMap<JobId, JobInfoCache>) -> HashMap<String, u32> {
    let mut taken = HashMap::new();
    for job in jobs.values() {
        let graph = job.execution_graph.read().await;
        for task in graph.running_tasks() {
            let slots = graph.task_vcores(task.stage_id, task.task_id).unwrap_or(1);
            *taken.entry(task.executor_id).or_insert(0) += slots;
        }
    }
    taken
}

#[async_trait]
impl ClusterState for Slots {
    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let all = self.all.lock().await;
        let taken = taken(&jobs).await;
        // The rules by which tasks are handed out are private to Ballista's state; one that is made for the occasion has
        // them, and the right numbers.
        let now = InMemoryClusterState::default();
        for metadata in self.inner.registered_executor_metadata().await {
            let Some(total) = all.get(&metadata.id).copied() else { continue };
            let free = total.saturating_sub(taken.get(&metadata.id).copied().unwrap_or(0));
            let executor_id = metadata.id.clone();
            let data = ExecutorData { executor_id, total_vcores: total, available_vcores: free };
            now.register_executor(metadata, data).await?;
        }
        now.bind_schedulable_tasks(distribution, jobs, executors).await
    }

    /// Nothing is counted, so that nothing is given back.
    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        Ok(())
    }

    async fn register_executor(&self, metadata: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        let (id, slots) = (data.executor_id.clone(), data.total_vcores);
        self.inner.register_executor(metadata, data).await?;
        self.all.lock().await.insert(id, slots);
        Ok(())
    }

    async fn remove_executor(&self, id: &str) -> Result<()> {
        self.all.lock().await.remove(id);
        self.inner.remove_executor(id).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.inner.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, id: &str) -> Result<ExecutorMetadata> {
        self.inner.get_executor_metadata(id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.inner.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.inner.save_executor_heartbeat(heartbeat).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.inner.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, id: &str) -> Option<ExecutorHeartbeat> {
        self.inner.get_executor_heartbeat(id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.inner.cluster_state_events().await
    }
}
