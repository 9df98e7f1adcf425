//! Interruption: temporary files are removed, then the process exits with 128 plus the signal's number. An unfinished output has
//! no name yet: it is written to a temporary file and renamed at the end.

use gpuforge::frame::temp_file::remove_temporary_files;

/// Installs the handlers of the platform.
pub(crate) fn install() {
    gpuforge::os::interrupt::on_interrupt(|| {
        remove_temporary_files();
    });
}
