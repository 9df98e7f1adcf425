//! Console output: stdout is data, stderr is messages; progress is one line, four times a second at most.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use gpuforge_train::fit::{Event, StepProgress};
use serde::Serialize;

const TERMINAL_INTERVAL: Duration = Duration::from_millis(250);
/// Without a terminal, a line now and then is enough.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Console {
    pub(crate) json: bool,
    quiet: bool,
    terminal: bool,
    last: Cell<Option<Instant>>,
    open: Cell<bool>,
}

impl Console {
    pub(crate) fn new(json: bool, quiet: bool) -> Console {
        let terminal = io::stderr().is_terminal();
        Console { json, quiet: quiet || json, terminal, last: Cell::new(None), open: Cell::new(false) }
    }

    /// A line on stderr.
    pub(crate) fn status(&self, text: &str) {
        if !self.quiet {
            self.clear();
            eprintln!("{text}");
        }
    }

    /// Finished text on stdout.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        self.clear();
        io::stdout().lock().write_all(text.as_bytes())?;
        Ok(())
    }

    /// One JSON document on stdout.
    pub(crate) fn document(&self, value: &impl Serialize) -> anyhow::Result<()> {
        self.print(&(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// The end of a run that failed; a `hint:` is part of the message.
    pub(crate) fn failed(&self, error: &anyhow::Error) -> ExitCode {
        self.clear();
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    }

    fn clear(&self) {
        if self.open.replace(false) {
            eprint!("\r\x1b[K");
        }
    }

    /// Reports a training event.
    pub(crate) fn event(&self, event: &Event, epochs: usize) {
        match event {
            Event::Started { step, batch, why } => {
                self.status(&format!("from step {step}, batch size {batch} ({why})"))
            }
            Event::Step(progress) => self.progress(progress, epochs),
            Event::Epoch(epoch) => self.status(&format!(
                "epoch {}/{epochs}: loss {:.4}, validation {:.4}, accuracy {:.2} %",
                epoch.epoch + 1,
                epoch.train_loss,
                epoch.validation.loss.unwrap_or(f64::NAN),
                100.0 * epoch.validation.accuracy
            )),
            Event::Skipped { error } => {
                self.status(&format!("skipped: {}", error.lines().next().unwrap_or_default()))
            }
            Event::BatchHalved { batch } => {
                self.status(&format!("out of memory: batch size reduced to {batch}"))
            }
            Event::LossScaleReduced { scale } => {
                self.status(&format!("f16 gradients overflowed: loss scale reduced to {scale}"))
            }
            Event::Recovered { step, device, why } => {
                self.status(&format!("device lost ({why}); continuing on {device} from step {step}"))
            }
            Event::EarlyStop { best } => {
                self.status(&format!("early stopping: no better validation loss since epoch {}", best + 1))
            }
        }
    }

    fn progress(&self, progress: &StepProgress, epochs: usize) {
        let often = if self.terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
        let due = self.last.get().is_none_or(|t| t.elapsed() >= often);
        if self.quiet || !due {
            return;
        }
        self.last.set(Some(Instant::now()));
        let line = format!(
            "epoch {}/{epochs} {:5.1} %  loss {:.4}  gradient {:.3}  {:.0} samples/s  {} left",
            progress.epoch + 1,
            100.0 * progress.done,
            progress.loss,
            progress.norm,
            progress.samples_per_second,
            left(progress.eta)
        );
        match self.terminal {
            true => {
                eprint!("\r\x1b[K{line}");
                self.open.set(true);
            }
            false => eprintln!("{line}"),
        }
    }
}

fn left(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}
