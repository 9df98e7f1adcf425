//! Systems without files and processes (wasm32-unknown-unknown): nothing is known, and nothing can be opened.

pub(crate) mod files {
    use std::{
        fs::{File, Permissions},
        io,
        path::Path,
    };

    use crate::files::DiskSpace;

    pub(crate) fn same_file(_: &File, _: &Path) -> bool {
        false
    }

    pub(crate) fn with_mode(_: u32) -> Option<Permissions> {
        None
    }

    pub(crate) fn is_executable(_: &Path) -> bool {
        false
    }

    pub(crate) fn release_before_rename(_: &File) {}

    pub(crate) fn rename_over(_: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn disk_space(_: &Path) -> Option<DiskSpace> {
        None
    }
}

pub(crate) mod interrupt {
    pub(crate) fn on_interrupt(_: fn()) {}

    pub(crate) fn send_break(_: u32) -> bool {
        false
    }
}

pub(crate) mod private_dir {
    use std::{
        fs::File,
        io,
        path::{Path, PathBuf},
    };

    pub(crate) fn runtime() -> PathBuf {
        PathBuf::from("gpuforge-run")
    }

    pub(crate) fn create(_: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn check(_: &Path) -> Result<(), String> {
        Err("owners cannot be checked on this system".to_owned())
    }

    pub(crate) fn check_file(_: &File) -> Result<(), &'static str> {
        Err("owners cannot be checked on this system")
    }
}

pub(crate) mod process {
    use std::{
        io,
        process::{Child, Command},
        time::Duration,
    };

    use crate::process::{ProcessLimits, ProcessMemory};

    pub(crate) fn is_gone(_: u32) -> bool {
        false
    }

    pub(crate) fn thread_cpu_time() -> Option<Duration> {
        None
    }

    pub(crate) fn cpu_time() -> Option<Duration> {
        None
    }

    pub(crate) fn memory() -> Option<ProcessMemory> {
        None
    }

    pub(crate) fn affinity() -> Option<u32> {
        None
    }

    pub(crate) fn limits() -> ProcessLimits {
        ProcessLimits::default()
    }

    pub(crate) fn die_with_parent() {}

    pub(crate) fn replace(_: Command) -> io::Result<i32> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[derive(Debug)]
    pub(crate) struct Group;

    impl Group {
        pub(crate) fn prepare(_: &mut Command) {}

        pub(crate) fn of(_: &Child) -> Self {
            Group
        }

        pub(crate) fn kill(&self) {}
    }
}

pub(crate) mod local_socket {
    use std::{io, path::Path};

    /// Never made.
    #[derive(Debug)]
    pub(crate) enum Listener {}

    /// Never made.
    #[derive(Debug)]
    pub(crate) enum Stream {}

    impl Listener {
        pub(crate) fn bind(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn accept(&self) -> io::Result<Stream> {
            match *self {}
        }

        pub(crate) fn set_nonblocking(&self, _: bool) -> io::Result<()> {
            match *self {}
        }
    }

    impl Stream {
        pub(crate) fn connect(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn set_nonblocking(&self, _: bool) -> io::Result<()> {
            match *self {}
        }

        pub(crate) fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match *self {}
        }

        pub(crate) fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            match *self {}
        }

        pub(crate) fn flush(&mut self) -> io::Result<()> {
            match *self {}
        }
    }
}
