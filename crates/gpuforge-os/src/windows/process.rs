//! Processes: handles, working set, job objects.

use std::{
    io,
    os::windows::{
        io::{AsRawHandle as _, OwnedHandle},
        process::CommandExt as _,
    },
    process::{Child, Command},
    time::Duration,
};

use windows_sys::Win32::{
    Foundation::{ERROR_INVALID_PARAMETER, FILETIME, GetLastError, HANDLE, WAIT_OBJECT_0},
    System::{
        JobObjects::{
            AssignProcessToJobObject, CreateJobObjectW, IsProcessInJob, JOB_OBJECT_CPU_RATE_CONTROL_ENABLE,
            JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP, JOB_OBJECT_LIMIT_JOB_MEMORY,
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_LIMIT_PROCESS_MEMORY,
            JOBOBJECT_CPU_RATE_CONTROL_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
            JobObjectCpuRateControlInformation, JobObjectExtendedLimitInformation, QueryInformationJobObject,
            SetInformationJobObject, TerminateJobObject,
        },
        ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS},
        SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX},
        Threading::{
            CREATE_NEW_PROCESS_GROUP, GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask,
            GetProcessTimes, GetThreadTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
            PROCESS_SYNCHRONIZE, WaitForSingleObject,
        },
    },
};

use super::owned;
use crate::process::{ProcessLimits, ProcessMemory};

pub(crate) fn is_gone(pid: u32) -> bool {
    // SAFETY: the call takes plain numbers; what it returns is owned below.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE, 0, pid) };
    match owned(process) {
        // A process that has ended stays while somebody holds a handle of it.
        // SAFETY: the handle is open.
        Some(process) => unsafe { WaitForSingleObject(process.as_raw_handle(), 0) == WAIT_OBJECT_0 },
        // Access denied means that there is such a process.
        // SAFETY: the call takes nothing and reads a number of this thread; no call was made since OpenProcess.
        None => unsafe { GetLastError() == ERROR_INVALID_PARAMETER },
    }
}

type TimesOf = unsafe extern "system" fn(
    HANDLE,
    *mut FILETIME,
    *mut FILETIME,
    *mut FILETIME,
    *mut FILETIME,
) -> windows_sys::core::BOOL;

/// Kernel and user time.
fn times(of: TimesOf, handle: HANDLE) -> Option<Duration> {
    let [mut made, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the pseudo handles of this thread and process are always valid; four structures are filled.
    let known = unsafe { of(handle, &raw mut made, &raw mut ended, &raw mut kernel, &raw mut user) } != 0;
    // Units of 100 ns.
    let ticks = |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    let all = ticks(kernel).checked_add(ticks(user))?.checked_mul(100)?;
    known.then(|| Duration::from_nanos(all))
}

pub(crate) fn thread_cpu_time() -> Option<Duration> {
    // SAFETY: returns a constant.
    times(GetThreadTimes, unsafe { GetCurrentThread() })
}

pub(crate) fn cpu_time() -> Option<Duration> {
    // SAFETY: returns a constant.
    times(GetProcessTimes, unsafe { GetCurrentProcess() })
}

pub(crate) fn memory() -> Option<ProcessMemory> {
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    let mut counters = PROCESS_MEMORY_COUNTERS { cb: size, ..PROCESS_MEMORY_COUNTERS::default() };
    // SAFETY: the structure has the size that it states.
    let known = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) } != 0;
    known.then(|| ProcessMemory {
        resident: counters.WorkingSetSize as u64,
        peak: Some(counters.PeakWorkingSetSize as u64),
        machine: machine_memory(),
    })
}

/// Memory of the machine.
pub(super) fn machine_memory() -> Option<u64> {
    let mut status = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: the structure has the size that it states.
    let known = unsafe { GlobalMemoryStatusEx(&raw mut status) } != 0;
    known.then_some(status.ullTotalPhys)
}

pub(crate) fn affinity() -> Option<u32> {
    let (mut ours, mut all) = (0, 0);
    // SAFETY: both masks are written before the call returns.
    let known = unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut ours, &raw mut all) } != 0;
    // Zero: the process has threads in several groups of 64 CPUs, and the mask says nothing.
    (known && ours != 0).then(|| ours.count_ones())
}

pub(crate) fn limits() -> ProcessLimits {
    let mut within = 0;
    // SAFETY: the pseudo handle is valid; without a job named, any job counts.
    let known = unsafe { IsProcessInJob(GetCurrentProcess(), core::ptr::null_mut(), &raw mut within) } != 0;
    if !known || within == 0 {
        return ProcessLimits::default();
    }
    let threads = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    ProcessLimits {
        cpus: query::<JOBOBJECT_CPU_RATE_CONTROL_INFORMATION>(JobObjectCpuRateControlInformation)
            .and_then(|rate| cpu_rate(&rate, threads)),
        memory_bytes: query::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(JobObjectExtendedLimitInformation)
            .and_then(|limits| memory_limit(&limits)),
    }
}

/// Information of one class about the job of this process.
fn query<T: Default>(class: JOBOBJECTINFOCLASS) -> Option<T> {
    let mut info = T::default();
    // SAFETY: callers pair a class with its structure; without a job named, the one of this process is asked.
    let known = unsafe {
        QueryInformationJobObject(
            core::ptr::null_mut(),
            class,
            (&raw mut info).cast(),
            size_of::<T>() as u32,
            core::ptr::null_mut(),
        )
    } != 0;
    known.then_some(info)
}

/// A hard cap in hundredths of a percent of all CPUs; a weight or a soft cap is no limit.
fn cpu_rate(rate: &JOBOBJECT_CPU_RATE_CONTROL_INFORMATION, threads: f64) -> Option<f64> {
    let capped = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
    // SAFETY: every member of the union is a number, and with these flags it is the rate.
    let share = unsafe { rate.Anonymous.CpuRate };
    (rate.ControlFlags & capped == capped).then(|| f64::from(share) / 10_000.0 * threads)
}

fn memory_limit(limits: &JOBOBJECT_EXTENDED_LIMIT_INFORMATION) -> Option<u64> {
    let flags = limits.BasicLimitInformation.LimitFlags;
    let job = (flags & JOB_OBJECT_LIMIT_JOB_MEMORY != 0).then_some(limits.JobMemoryLimit as u64);
    let own = (flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY != 0).then_some(limits.ProcessMemoryLimit as u64);
    job.into_iter().chain(own).min()
}

pub(crate) fn die_with_parent() {}

pub(crate) fn replace(mut command: Command) -> io::Result<i32> {
    // Ctrl-C reaches both; the child decides, and its code is ours.
    command.status().map(|status| status.code().unwrap_or(1))
}

/// A job object that kills its processes when its last handle is closed.
#[derive(Debug)]
pub(crate) struct Group(Option<OwnedHandle>);

impl Group {
    pub(crate) fn prepare(command: &mut Command) {
        // Ctrl-C at our console is ours to handle.
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    pub(crate) fn of(child: &Child) -> Self {
        // SAFETY: no attributes and no name are passed; the handle is owned below.
        let Some(job) = owned(unsafe { CreateJobObjectW(core::ptr::null(), core::ptr::null()) }) else {
            return Group(None);
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the class is that of the structure, whose size is passed; both handles are open.
        let joined = unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32,
            ) != 0
                && AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) != 0
        };
        Group(joined.then_some(job))
    }

    pub(crate) fn kill(&self) {
        if let Some(job) = &self.0 {
            // SAFETY: the handle is open.
            unsafe { TerminateJobObject(job.as_raw_handle(), 1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_job_are_read_only_where_they_are_set() {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        (limits.JobMemoryLimit, limits.ProcessMemoryLimit) = (1 << 30, 1 << 20);
        assert_eq!(memory_limit(&limits), None);
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_JOB_MEMORY;
        assert_eq!(memory_limit(&limits), Some(1 << 30));
        limits.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_MEMORY;
        assert_eq!(memory_limit(&limits), Some(1 << 20));
        let mut rate = JOBOBJECT_CPU_RATE_CONTROL_INFORMATION::default();
        rate.Anonymous.CpuRate = 2_500;
        assert_eq!(cpu_rate(&rate, 8.0), None);
        rate.ControlFlags = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
        assert_eq!(cpu_rate(&rate, 8.0), Some(2.0));
    }
}
