//! Task slots: an executor gets as many tasks as it has slots, minus those that running jobs hold.
//!
//! Ballista's own state counts: a task takes a slot when it starts, its end message returns it. When an executor dies, stages
//! that had started on others restart, their tasks are cancelled, and the end messages no longer match any task: those slots
//! leak, and a job on an executor with one slot waits forever (Ballista 55; `tests/processes.rs` kills an executor). Derived
//! from the running tasks, slots cannot leak.

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

/// Ballista's cluster state with free slots derived from running tasks.
#[derive(Default)]
pub(super) struct TaskSlots {
    inner: InMemoryClusterState,
    /// Total slots per executor. Held while tasks are bound, so that no one else sees an intermediate state.
    total_slots: Mutex<HashMap<String, u32>>,
}

/// Slots used by running tasks of these jobs, per executor.
async fn used_slots(jobs: &HashMap<JobId, JobInfoCache>) -> HashMap<String, u32> {
    let mut used = HashMap::new();
    for job in jobs.values() {
        let graph = job.execution_graph.read().await;
        for task in graph.running_tasks() {
            let slots = graph.task_vcores(task.stage_id, task.task_id).unwrap_or(1);
            *used.entry(task.executor_id).or_insert(0) += slots;
        }
    }
    used
}

#[async_trait]
impl ClusterState for TaskSlots {
    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let totals = self.total_slots.lock().await;
        let used = used_slots(&jobs).await;
        // The binding policies are private to Ballista's state: a temporary one with the right counts applies them.
        let snapshot = InMemoryClusterState::default();
        for metadata in self.inner.registered_executor_metadata().await {
            let Some(total) = totals.get(&metadata.id).copied() else { continue };
            let free = total.saturating_sub(used.get(&metadata.id).copied().unwrap_or(0));
            let executor_id = metadata.id.clone();
            let data = ExecutorData { executor_id, total_vcores: total, available_vcores: free };
            snapshot.register_executor(metadata, data).await?;
        }
        snapshot.bind_schedulable_tasks(distribution, jobs, executors).await
    }

    /// No-op: free slots are derived, not counted.
    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        Ok(())
    }

    async fn register_executor(&self, metadata: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        let (id, slots) = (data.executor_id.clone(), data.total_vcores);
        self.inner.register_executor(metadata, data).await?;
        self.total_slots.lock().await.insert(id, slots);
        Ok(())
    }

    async fn remove_executor(&self, id: &str) -> Result<()> {
        self.total_slots.lock().await.remove(id);
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
