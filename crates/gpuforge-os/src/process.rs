//! Processes: liveness, CPU time, memory, limits; replacing a process, killing one with its children.

use std::{
    io,
    process::{Child, Command},
    time::Duration,
};

use crate::sys;

/// Memory of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident now: the working set.
    pub resident: u64,
    /// The most that was resident.
    pub peak: Option<u64>,
    /// Memory of the machine.
    pub machine: Option<u64>,
}

/// Limits that the system has put on this process and its children, beside cgroups: those of a Windows job object.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessLimits {
    /// CPUs it may keep busy, as a rate.
    pub cpus: Option<f64>,
    /// Bytes of memory it may commit.
    pub memory_bytes: Option<u64>,
}

/// Is there certainly no process with this id?
pub fn is_gone(pid: u32) -> bool {
    sys::process::is_gone(pid)
}

/// CPU time of the calling thread; on Linux up to when it last slept.
pub fn thread_cpu_time() -> Option<Duration> {
    sys::process::thread_cpu_time()
}

/// CPU time of this process, in the system's units (10 ms on Linux, 16 ms on Windows).
pub fn cpu_time() -> Option<Duration> {
    sys::process::cpu_time()
}

/// Memory of this process.
pub fn memory() -> Option<ProcessMemory> {
    sys::process::memory()
}

/// CPUs in the affinity mask; `None` where the system has no such mask (or more CPUs than it holds).
pub fn affinity() -> Option<u32> {
    sys::process::affinity()
}

/// Limits of the job object that this process is in; none of it on Unix, where cgroups are read as files.
pub fn limits() -> ProcessLimits {
    sys::process::limits()
}

/// A child calls it first: it is killed when its parent is. On Windows the parent holds a [`ProcessGroup`] instead.
pub fn die_with_parent() {
    sys::process::die_with_parent();
}

/// Runs the program in place of this one. Does not return where a process can be replaced (`exec`); elsewhere it runs as a
/// child, and its exit code is to be ours.
///
/// # Errors
/// It cannot be started.
pub fn replace(command: Command) -> io::Result<i32> {
    sys::process::replace(command)
}

/// A child and the processes it starts, which are killed together: a process group, or a job object.
///
/// On Windows dropping it kills them too, also when this process is killed.
#[derive(Debug)]
pub struct ProcessGroup(sys::process::Group);

impl ProcessGroup {
    /// To be called on the command before it is spawned.
    pub fn prepare(command: &mut Command) {
        sys::process::Group::prepare(command);
    }

    /// The group of a child, just after it was spawned.
    pub fn of(child: &Child) -> Self {
        ProcessGroup(sys::process::Group::of(child))
    }

    /// Kills all of them. Best effort: who is gone already needs no killing.
    pub fn kill(&self) {
        self.0.kill();
    }
}
