//! Cluster status: the scheduler's REST interface, queried with a deadline.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::host_port;

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer that is read.
const MOST: u64 = 64 << 20;

/// Why a scheduler could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// It is not there, or is no scheduler.
    #[error("no scheduler answers at {address}: {why}\n  hint: start one with `gpuforge cluster scheduler`")]
    Silent {
        /// Where.
        address: String,
        /// What happened.
        why: String,
    },
    /// An answer that cannot be read.
    #[error(
        "the scheduler at {address} answers something else: {why}\n  hint: run the same version of gpuforge-cluster everywhere"
    )]
    Strange {
        /// Where.
        address: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A cluster, as its scheduler sees it.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Where the scheduler listens.
    pub scheduler: String,
    /// Executors that have registered.
    pub executors: Vec<ExecutorStatus>,
    /// Jobs that it remembers, as it describes them.
    pub jobs: Vec<serde_json::Value>,
}

impl Status {
    /// Is this job one that failed or was cancelled?
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
    /// Its machine.
    pub host: String,
    /// Its port for data.
    pub port: u16,
    /// Milliseconds since 1970 at its last sign of life, if it gave one.
    pub last_seen: Option<u64>,
    /// What it can do, as it describes it.
    pub specification: serde_json::Value,
}

/// Asks a scheduler.
pub async fn status(address: &str) -> Result<Status, StatusError> {
    let executors = ask(address, "GET", "/api/executors").await?;
    let jobs = ask(address, "GET", "/api/jobs").await?;
    let strange =
        |e: serde_json::Error| StatusError::Strange { address: address.to_owned(), why: e.to_string() };
    let executors = serde_json::from_value(executors).map_err(strange)?;
    let jobs = serde_json::from_value(jobs).map_err(strange)?;
    Ok(Status { scheduler: address.to_owned(), executors, jobs })
}

/// One answer of the scheduler's HTTP interface.
pub(super) async fn ask(address: &str, method: &str, path: &str) -> Result<serde_json::Value, StatusError> {
    let silent = |why: String| StatusError::Silent { address: address.to_owned(), why };
    let said = tokio::time::timeout(PATIENCE, fetch(address, method, path)).await;
    let said =
        said.map_err(|_| silent("no answer within 10 s".to_owned()))?.map_err(|e| silent(e.to_string()))?;
    let strange = |why: &str| StatusError::Strange { address: address.to_owned(), why: why.to_owned() };
    let (head, body) = said.split_once("\r\n\r\n").ok_or_else(|| strange("no HTTP"))?;
    let first = head.lines().next().unwrap_or_default();
    if !first.contains(" 200") {
        return Err(strange(first));
    }
    serde_json::from_str(body.trim()).map_err(|e| strange(&e.to_string()))
}

/// HTTP 1.0: the body ends with the connection.
async fn fetch(address: &str, method: &str, path: &str) -> std::io::Result<String> {
    let (host, port) = host_port(address)
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "no address: HOST:PORT"))?;
    let mut stream = tokio::net::TcpStream::connect((host.as_str(), port)).await?;
    let request = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    stream.take(MOST).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_failed_are_told_from_others() {
        let job = |id: &str, status: &str| serde_json::json!({ "job_id": id, "job_status": status });
        let jobs =
            vec![job("a", "Failed: Cancelled"), job("b", "Running"), job("c", "Completed. Produced 4")];
        let status = Status { scheduler: String::new(), executors: Vec::new(), jobs };
        assert_eq!(["a", "b", "c", "d"].map(|id| status.failed(id)), [true, false, false, false]);
    }
}
