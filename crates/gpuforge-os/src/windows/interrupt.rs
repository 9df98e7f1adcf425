//! Console control events: Ctrl-C, Ctrl-Break, closing of the console, log-off, shutdown. The system calls the handler in a
//! thread of its own.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use windows_sys::{
    Win32::System::{
        Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler},
        Threading::{GetCurrentProcess, TerminateProcess},
    },
    core::BOOL,
};

static CLEANUP: OnceLock<fn()> = OnceLock::new();
static SEEN: AtomicBool = AtomicBool::new(false);

pub(crate) fn on_interrupt(cleanup: fn()) {
    if CLEANUP.set(cleanup).is_ok() {
        // SAFETY: the handler is a function of this program, which is never unloaded.
        unsafe { SetConsoleCtrlHandler(Some(handler), 1) };
    }
}

pub(crate) fn send_break(pid: u32) -> bool {
    // SAFETY: the call takes plain numbers.
    unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, pid) != 0 }
}

/// 128 plus the number of SIGINT, or of SIGTERM: scripts that run on Unix too know these.
const fn code(event: u32) -> u32 {
    match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT => 130,
        _ => 143,
    }
}

extern "system" fn handler(event: u32) -> BOOL {
    if !SEEN.swap(true, Ordering::SeqCst)
        && let Some(cleanup) = CLEANUP.get()
    {
        cleanup();
    }
    // Not `exit`: it would run the handlers of drivers, which may be in the middle of work.
    // SAFETY: ends this process; nothing runs afterwards.
    unsafe { TerminateProcess(GetCurrentProcess(), code(event)) };
    1
}
