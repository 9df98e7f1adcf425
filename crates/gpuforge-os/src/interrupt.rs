//! Interruption by the user or the system: clean up, then exit.

use crate::sys;

/// Calls `cleanup` and exits on SIGINT, SIGTERM and SIGHUP, with 128 plus the signal's number; on Windows on Ctrl-C,
/// Ctrl-Break, and when console, session or machine are closed, with the number of the signal that is nearest.
///
/// A second one exits at once, whatever the first is waiting for. A signal that was ignored at the start stays ignored:
/// `nohup` and background jobs of a script rely on that. Where handlers cannot be installed, the default action stays.
pub fn on_interrupt(cleanup: fn()) {
    sys::interrupt::on_interrupt(cleanup);
}

/// Interrupts another process as its user would: SIGINT; on Windows Ctrl-Break, to a process that leads a group of its own on
/// the same console. False where that cannot be sent.
pub fn send_break(pid: u32) -> bool {
    sys::interrupt::send_break(pid)
}
