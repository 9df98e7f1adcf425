//! Console output: stdout is data, stderr is messages; progress is one line, four times a second at most.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::{Duration, Instant},
};

use gpuforge_train::fit::{Event, StepProgress};
use serde::Serialize;

const OFTEN: Duration = Duration::from_millis(250);
/// Where nobody watches, a line now and then is enough.
const SELDOM: Duration = Duration::from_secs(10);

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
    pub(crate) fn say(&self, text: &str) {
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

    /// What happens while a model is trained.
    pub(crate) fn event(&self, event: &Event, epochs: usize) {
        match event {
            Event::Init { step, batch, why } => {
                self.say(&format!("from step {step}, {batch} samples per step ({why})"))
            }
            Event::Step(tick) => self.tick(tick, epochs),
            Event::Epoch(epoch) => self.say(&format!(
                "epoch {}/{epochs}: loss {:.4}, validation {:.4}, right {:.2} %",
                epoch.epoch + 1,
                epoch.train_loss,
                epoch.validation.loss.unwrap_or(f64::NAN),
                100.0 * epoch.validation.accuracy
            )),
            Event::Skipped { error } => {
                self.say(&format!("skipped: {}", error.lines().next().unwrap_or_default()))
            }
            Event::BatchHalved { batch } => {
                self.say(&format!("memory ran out: {batch} samples per step from now on"))
            }
            Event::Rescaled { scale } => {
                self.say(&format!("gradients did not fit 16 bits: losses times {scale} from now on"))
            }
            Event::Recovered { step, device, why } => {
                self.say(&format!("the device was lost ({why}); {device} goes on from step {step}"))
            }
            Event::Early { best } => {
                self.say(&format!("no better validation since epoch {}: training ends", best + 1))
            }
        }
    }

    fn tick(&self, tick: &StepProgress, epochs: usize) {
        let often = if self.terminal { OFTEN } else { SELDOM };
        let due = self.last.get().is_none_or(|t| t.elapsed() >= often);
        if self.quiet || !due {
            return;
        }
        self.last.set(Some(Instant::now()));
        let line = format!(
            "epoch {}/{epochs} {:5.1} %  loss {:.4}  gradient {:.3}  {:.0} samples/s  {} left",
            tick.epoch + 1,
            100.0 * tick.done,
            tick.loss,
            tick.norm,
            tick.per_second,
            left(tick.left)
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
