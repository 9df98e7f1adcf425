//! Cluster roles: scheduler, executors and clients, or all three in one process.
//!
//! Ballista's own processes with our session extensions: the scheduler plans, executors compute and keep shuffle data, clients
//! send logical plans and fetch results.

mod client;
mod embedded;
mod executor;
mod find_corrupt_file;
mod scheduler;
mod slots;
mod status;

pub use client::{Client, ClientError, Query};
pub use embedded::Embedded;
pub use executor::{ExecutorOptions, executor};
pub use scheduler::{Scheduler, SchedulerOptions};
pub use status::{ExecutorStatus, Status, StatusError, status};

use std::net::{IpAddr, TcpListener};

/// Default scheduler port.
pub const PORT: u16 = 50_050;

/// A currently free port. Ballista binds by number, so another process may take it first; the process then ends with an
/// error.
fn free_port(host: IpAddr) -> std::io::Result<u16> {
    Ok(TcpListener::bind((host, 0))?.local_addr()?.port())
}

/// `host:port`, with or without a scheme.
fn host_port(address: &str) -> Option<(String, u16)> {
    let text = if address.contains("://") { address.to_owned() } else { format!("df://{address}") };
    let url = url::Url::parse(&text).ok()?;
    Some((url.host_str()?.to_owned(), url.port().unwrap_or(PORT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_with_and_without_scheme() {
        let here = || Some(("10.0.0.1".to_owned(), 4000));
        assert_eq!(host_port("10.0.0.1:4000"), here());
        assert_eq!(host_port("df://10.0.0.1:4000"), here());
        assert_eq!(host_port("box"), Some(("box".to_owned(), PORT)));
        assert_eq!(host_port(":1"), None);
    }
}
