//! Cluster status: the scheduler's REST interface, queried with a deadline.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::host_port;

/// Request deadline.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Response size limit.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// Status errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// Nothing answers at the address.
    #[error("no scheduler answers at {address}: {why}\n  hint: start one with `gpuforge cluster scheduler`")]
    Unreachable {
        /// The address.
        address: String,
        /// The cause.
        why: String,
    },
    /// The response cannot be parsed.
    #[error(
        "invalid response of the scheduler at {address}: {why}\n  hint: run the same version of gpuforge-cluster everywhere"
    )]
    InvalidResponse {
        /// The address.
        address: String,
        /// The cause.
        why: String,
    },
}

/// Cluster status.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Scheduler address.
    pub scheduler: String,
    /// Registered executors.
    pub executors: Vec<ExecutorStatus>,
    /// Jobs, as the scheduler reports them.
    pub jobs: Vec<serde_json::Value>,
}

impl Status {
    /// Whether this job failed or was cancelled.
    pub fn failed(&self, job: &str) -> bool {
        let part =
            |of: &serde_json::Value, name: &str| of.get(name).and_then(|v| v.as_str()).map(str::to_owned);
        self.jobs.iter().any(|of| {
            part(of, "job_id").is_some_and(|id| id == job)
                && part(of, "job_status").is_some_and(|s| s.starts_with("Failed"))
        })
    }
}

/// An executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecutorStatus {
    /// Its identifier.
    pub id: String,
    /// Host.
    pub host: String,
    /// Shuffle port.
    pub port: u16,
    /// Last heartbeat in milliseconds since 1970, if any.
    pub last_seen: Option<u64>,
    /// Resources, as the executor reports them.
    pub specification: serde_json::Value,
}

/// Queries a scheduler.
pub async fn status(address: &str) -> Result<Status, StatusError> {
    let executors = request_json(address, "GET", "/api/executors").await?;
    let jobs = request_json(address, "GET", "/api/jobs").await?;
    let invalid = |e: serde_json::Error| StatusError::InvalidResponse {
        address: address.to_owned(),
        why: e.to_string(),
    };
    let executors = serde_json::from_value(executors).map_err(invalid)?;
    let jobs = serde_json::from_value(jobs).map_err(invalid)?;
    Ok(Status { scheduler: address.to_owned(), executors, jobs })
}

/// One request to the scheduler's REST API.
pub(super) async fn request_json(
    address: &str,
    method: &str,
    path: &str,
) -> Result<serde_json::Value, StatusError> {
    let unreachable = |why: String| StatusError::Unreachable { address: address.to_owned(), why };
    let response = tokio::time::timeout(TIMEOUT, fetch(address, method, path)).await;
    let response = response
        .map_err(|_| unreachable("no response within 10 s".to_owned()))?
        .map_err(|e| unreachable(e.to_string()))?;
    let invalid =
        |why: &str| StatusError::InvalidResponse { address: address.to_owned(), why: why.to_owned() };
    let (head, body) = response.split_once("\r\n\r\n").ok_or_else(|| invalid("no HTTP"))?;
    let first = head.lines().next().unwrap_or_default();
    if !first.contains(" 200") {
        return Err(invalid(first));
    }
    serde_json::from_str(body.trim()).map_err(|e| invalid(&e.to_string()))
}

/// HTTP 1.0: the body ends with the connection.
async fn fetch(address: &str, method: &str, path: &str) -> std::io::Result<String> {
    let (host, port) = host_port(address)
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "no address: HOST:PORT"))?;
    let mut stream = tokio::net::TcpStream::connect((host.as_str(), port)).await?;
    let request = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_jobs_are_recognised() {
        let job = |id: &str, status: &str| serde_json::json!({ "job_id": id, "job_status": status });
        let jobs =
            vec![job("a", "Failed: Cancelled"), job("b", "Running"), job("c", "Completed. Produced 4")];
        let status = Status { scheduler: String::new(), executors: Vec::new(), jobs };
        assert_eq!(["a", "b", "c", "d"].map(|id| status.failed(id)), [true, false, false, false]);
    }
}
