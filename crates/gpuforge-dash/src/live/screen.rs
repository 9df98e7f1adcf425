//! How does a view look on a terminal? Panels by the room there is, drawn from plain data; and the loop around them.

use std::{io, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Sparkline},
};

use super::{
    figures::count,
    follow::Follower,
    machine::{HOW, Machine},
    snapshot::Level,
    text::{
        counter_lines, decisions, device_lines, gauge_lines, memory_line, operation_heading, operation_lines,
        routing_lines, title,
    },
    view::{State, View},
};

/// Columns from which on panels stand side by side.
const WIDE: u16 = 120;
/// How long to wait for a key before looking at the process again.
const BREATH: Duration = Duration::from_millis(100);

/// Keys and what they do; the help is made of it.
pub const KEYS: [(&str, &str); 5] = [
    ("?", "this help"),
    ("p", "pause the picture; the process goes on"),
    ("↑ ↓", "scroll operations, counters and gauges"),
    ("q Esc", "leave"),
    ("Ctrl-C", "leave"),
];

/// How the picture is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Show the keys.
    pub help: bool,
    /// The picture stands still.
    pub paused: bool,
    /// Lines of operations, counters and gauges that are scrolled away.
    pub skip: usize,
    /// No colours.
    pub plain: bool,
}

impl Look {
    fn style(self, color: Color) -> Style {
        if self.plain { Style::new().add_modifier(Modifier::BOLD) } else { Style::new().fg(color) }
    }

    fn level(self, level: Level) -> Style {
        match level {
            Level::Info => Style::new(),
            Level::Warning => self.style(Color::Yellow),
            Level::Error => self.style(Color::Red),
        }
    }

    fn state(self, state: State) -> Style {
        match state {
            State::Live => self.style(Color::Green),
            State::Waiting => Style::new(),
            _ => self.style(Color::Yellow),
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, view: &View, machine: &Machine, look: Look) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let name = Span::styled("gpuforge monitor  ", Style::new().add_modifier(Modifier::BOLD));
    let state = Span::styled(title(view), look.state(view.state));
    frame.render_widget(Line::from(vec![name, state]), head);
    let paused = if look.paused { "  paused" } else { "" };
    frame.render_widget(Line::from(format!("? help · q leave{paused}")).style(dim()), foot);
    match view.snapshot {
        Some(_) => panels(frame, body, view, look),
        None => waiting(frame, body, machine),
    }
    if look.help {
        help(frame, body);
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn panel(frame: &mut Frame<'_>, area: Rect, head: String, lines: Vec<Line<'_>>) {
    let block = Block::bordered().title(format!(" {head} "));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Rows that a panel of so many lines takes, frame included, and at most so many.
fn rows(lines: usize, most: u16) -> Constraint {
    Constraint::Length(u16::try_from(lines).unwrap_or(most).saturating_add(2).clamp(3, most))
}

fn panels(frame: &mut Frame<'_>, area: Rect, view: &View, look: Look) {
    let Some(s) = &view.snapshot else { return };
    let (devices, memories) = (device_lines(s), s.memory.len());
    let wide = area.width >= WIDE;
    let most = if area.height >= 40 { 10 } else { 5 };
    let half = || Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
    let [device, memory, operations, routing, events]: [Rect; 5] = if wide {
        let top = rows(devices.len().max(memories), most);
        let [top, middle, bottom] =
            Layout::vertical([top, Constraint::Fill(3), Constraint::Fill(2)]).areas(area);
        let [a, b]: [Rect; 2] = half().areas(top);
        let [c, d]: [Rect; 2] = half().areas(bottom);
        [a, b, middle, c, d]
    } else {
        let sizes = [
            rows(devices.len(), most),
            rows(memories, most),
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Fill(2),
        ];
        Layout::vertical(sizes).areas(area)
    };
    let lines = if devices.is_empty() { vec!["none is open".to_owned()] } else { devices };
    panel(frame, device, "devices".to_owned(), lines.into_iter().map(Line::from).collect());
    panel(frame, memory, "memory".to_owned(), memory_panel(view, look, memory));
    operation_panel(frame, operations, view, look);
    let head = format!("routing · {}", decisions(s));
    panel(frame, routing, head, routing_lines(view).into_iter().map(Line::from).collect());
    panel(frame, events, "events".to_owned(), event_lines(view, look));
}

fn memory_panel(view: &View, look: Look, area: Rect) -> Vec<Line<'static>> {
    let cells = usize::from(area.width / 8).clamp(8, 30);
    let style = |m: &super::snapshot::Memory| match m.pressure.as_deref() {
        Some("critical") => look.style(Color::Red),
        Some("high") => look.style(Color::Yellow),
        _ => Style::new(),
    };
    let memory = view.snapshot.iter().flat_map(|s| &s.memory);
    memory.map(|m| Line::styled(memory_line(m, view, cells), style(m))).collect()
}

/// Operations as a table, counters and gauges below; their speed over time beside it where there is room.
fn operation_panel(frame: &mut Frame<'_>, area: Rect, view: &View, look: Look) {
    let beside = if area.width >= WIDE { Constraint::Length(42) } else { Constraint::Length(0) };
    let [left, right] = Layout::horizontal([Constraint::Fill(1), beside]).areas(area);
    let name = usize::from(left.width).saturating_sub(43).clamp(12, 80);
    let mut lines = vec![Line::styled(operation_heading(name), dim())];
    let unusual = |line: &str| view.anomalies.iter().any(|a| line.starts_with(a.operation.as_str()));
    let all = operation_lines(view, name)
        .into_iter()
        .chain(counter_lines(view, name))
        .chain(gauge_lines(view, name));
    for line in all.skip(look.skip) {
        let style = if unusual(&line) { look.style(Color::Yellow) } else { Style::new() };
        lines.push(Line::styled(line, style));
    }
    panel(frame, left, "operations".to_owned(), lines);
    if right.width > 2 {
        let now = view.trend.last().map_or("-".to_owned(), |r| count(*r));
        let block = Block::bordered().title(format!(" {now} a second "));
        // The newest values that fit; a cell shows eighths.
        let room = usize::from(right.width).saturating_sub(2);
        let skip = view.trend.len().saturating_sub(room);
        let data: Vec<u64> = view.trend.iter().skip(skip).map(|r| (r * 8.0) as u64).collect();
        frame.render_widget(Sparkline::default().block(block).data(data), right);
    }
}

fn event_lines(view: &View, look: Look) -> Vec<Line<'static>> {
    let line = |(at, level, text): &(u64, Level, String)| {
        Line::styled(format!("{:>6.1} s  {text}", *at as f64 / 1e3), look.level(*level))
    };
    view.happenings().iter().rev().map(line).collect()
}

fn waiting(frame: &mut Frame<'_>, area: Rect, machine: &Machine) {
    let mut lines: Vec<Line<'_>> = machine
        .devices
        .iter()
        .flat_map(|d| {
            [
                Line::styled(d.name.as_str(), Style::new().add_modifier(Modifier::BOLD)),
                Line::from(format!("  {}", d.detail)),
            ]
        })
        .collect();
    lines.extend(machine.choice.iter().map(|c| Line::from(format!("would use {c}"))));
    lines.push(Line::default());
    lines.extend(HOW.map(Line::from));
    panel(frame, area, "this machine".to_owned(), lines);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let height = u16::try_from(KEYS.len()).unwrap_or(0) + 2;
    let [_, middle, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let [_, middle, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(52), Constraint::Fill(1)]).areas(middle);
    frame.render_widget(Clear, middle);
    let lines = KEYS.map(|(key, what)| Line::from(format!(" {key:<8} {what}"))).to_vec();
    panel(frame, middle, "keys".to_owned(), lines);
}

/// What a key asks for; `None` to leave.
pub fn press(look: Look, code: KeyCode, modifiers: KeyModifiers) -> Option<Look> {
    let held = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c') if held => return None,
        KeyCode::Esc if look.help => Look { help: false, ..look },
        KeyCode::Char('q') | KeyCode::Esc => return None,
        KeyCode::Char('?') | KeyCode::Char('h') => Look { help: !look.help, ..look },
        KeyCode::Char('p') => Look { paused: !look.paused, ..look },
        KeyCode::Up => Look { skip: look.skip.saturating_sub(1), ..look },
        KeyCode::Down => {
            Look { skip: look.skip.saturating_add(1).min(3 * super::snapshot::MOST_ROWS), ..look }
        }
        _ => look,
    })
}

/// Shows a process on the terminal until the user leaves. The terminal is put back whatever happens.
pub fn run(mut follower: Follower, machine: &Machine, plain: bool) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &mut follower, machine, Look { plain, ..Look::default() });
    ratatui::try_restore()?;
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    follower: &mut Follower,
    machine: &Machine,
    mut look: Look,
) -> io::Result<()> {
    let mut view = View::default();
    let mut drawn = false;
    loop {
        let mut news = follower.poll() && !look.paused;
        if news {
            view = follower.view().clone();
        }
        if event::poll(if news { Duration::ZERO } else { BREATH })? {
            match event::read()? {
                Input::Key(key) if key.kind != KeyEventKind::Release => {
                    let Some(next) = press(look, key.code, key.modifiers) else { return Ok(()) };
                    look = next;
                    news = true;
                }
                Input::Resize(..) => news = true,
                _ => {}
            }
        }
        if news || !drawn {
            terminal.draw(|frame| draw(frame, &view, machine, look))?;
            drawn = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_help_says() {
        let none = KeyModifiers::NONE;
        let start = Look::default();
        let help = press(start, KeyCode::Char('?'), none).unwrap();
        assert!(help.help);
        assert_eq!(press(help, KeyCode::Esc, none), Some(start));
        assert_eq!(press(start, KeyCode::Esc, none), None);
        assert_eq!(press(start, KeyCode::Char('q'), none), None);
        assert_eq!(press(start, KeyCode::Char('c'), KeyModifiers::CONTROL), None);
        assert_eq!(press(start, KeyCode::Char('c'), none), Some(start));
        assert!(press(start, KeyCode::Char('p'), none).unwrap().paused);
        assert_eq!(press(start, KeyCode::Down, none).unwrap().skip, 1);
        assert_eq!(press(start, KeyCode::Up, none).unwrap().skip, 0);
    }
}
