//! Terminal UI (ratatui): panels by terminal size, event loop, key bindings.

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
    follower::Follower,
    format::count,
    machine_info::{HOW, MachineInfo},
    plain_text::{
        counter_lines, decisions, device_lines, gauge_lines, memory_line, operation_heading, operation_lines,
        routing_lines, title,
    },
    snapshot::EventLevel,
    view::{ConnectionState, LiveView},
};

/// Minimum width for two columns of panels.
const WIDE: u16 = 120;
/// Timeout of waiting for a key before polling the process.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Key bindings; the help is generated from it.
pub const KEYS: [(&str, &str); 5] = [
    ("?", "this help"),
    ("p", "pause the picture; the process goes on"),
    ("↑ ↓", "scroll operations, counters and gauges"),
    ("q Esc", "leave"),
    ("Ctrl-C", "leave"),
];

/// ConnectionState of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScreenState {
    /// Help is shown.
    pub help: bool,
    /// Paused.
    pub paused: bool,
    /// Scroll offset of operations, counters and gauges.
    pub skip: usize,
    /// No colours.
    pub plain: bool,
}

impl ScreenState {
    fn style(self, color: Color) -> Style {
        if self.plain { Style::new().add_modifier(Modifier::BOLD) } else { Style::new().fg(color) }
    }

    fn level(self, level: EventLevel) -> Style {
        match level {
            EventLevel::Info => Style::new(),
            EventLevel::Warning => self.style(Color::Yellow),
            EventLevel::Error => self.style(Color::Red),
        }
    }

    fn state(self, state: ConnectionState) -> Style {
        match state {
            ConnectionState::Live => self.style(Color::Green),
            ConnectionState::Waiting => Style::new(),
            _ => self.style(Color::Yellow),
        }
    }
}

/// Draws a frame.
pub fn draw(frame: &mut Frame<'_>, view: &LiveView, machine: &MachineInfo, screen: ScreenState) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let name = Span::styled("gpuforge monitor  ", Style::new().add_modifier(Modifier::BOLD));
    let state = Span::styled(title(view), screen.state(view.state));
    frame.render_widget(Line::from(vec![name, state]), head);
    let paused = if screen.paused { "  paused" } else { "" };
    frame.render_widget(Line::from(format!("? help · q leave{paused}")).style(dim()), foot);
    match view.snapshot {
        Some(_) => panels(frame, body, view, screen),
        None => waiting(frame, body, machine),
    }
    if screen.help {
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

/// Height of a panel with its border, at most `max`.
fn rows(lines: usize, max: u16) -> Constraint {
    Constraint::Length(u16::try_from(lines).unwrap_or(max).saturating_add(2).clamp(3, max))
}

fn panels(frame: &mut Frame<'_>, area: Rect, view: &LiveView, screen: ScreenState) {
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
    panel(frame, memory, "memory".to_owned(), memory_panel(view, screen, memory));
    operation_panel(frame, operations, view, screen);
    let head = format!("routing · {}", decisions(s));
    panel(frame, routing, head, routing_lines(view).into_iter().map(Line::from).collect());
    panel(frame, events, "events".to_owned(), event_lines(view, screen));
}

fn memory_panel(view: &LiveView, screen: ScreenState, area: Rect) -> Vec<Line<'static>> {
    let cells = usize::from(area.width / 8).clamp(8, 30);
    let style = |m: &super::snapshot::MemoryStatus| match m.pressure.as_deref() {
        Some("critical") => screen.style(Color::Red),
        Some("high") => screen.style(Color::Yellow),
        _ => Style::new(),
    };
    let memory = view.snapshot.iter().flat_map(|s| &s.memory);
    memory.map(|m| Line::styled(memory_line(m, view, cells), style(m))).collect()
}

/// Table of operations, counters and gauges; a throughput sparkline beside it where there is room.
fn operation_panel(frame: &mut Frame<'_>, area: Rect, view: &LiveView, screen: ScreenState) {
    let beside = if area.width >= WIDE { Constraint::Length(42) } else { Constraint::Length(0) };
    let [left, right] = Layout::horizontal([Constraint::Fill(1), beside]).areas(area);
    let name = usize::from(left.width).saturating_sub(43).clamp(12, 80);
    let mut lines = vec![Line::styled(operation_heading(name), dim())];
    let unusual = |line: &str| view.anomalies.iter().any(|a| line.starts_with(a.operation.as_str()));
    let all = operation_lines(view, name)
        .into_iter()
        .chain(counter_lines(view, name))
        .chain(gauge_lines(view, name));
    for line in all.skip(screen.skip) {
        let style = if unusual(&line) { screen.style(Color::Yellow) } else { Style::new() };
        lines.push(Line::styled(line, style));
    }
    panel(frame, left, "operations".to_owned(), lines);
    if right.width > 2 {
        let now = view.trend.last().map_or("-".to_owned(), |r| count(*r));
        let block = Block::bordered().title(format!(" {now} a second "));
        // The newest values that fit; a cell has eight levels.
        let room = usize::from(right.width).saturating_sub(2);
        let skip = view.trend.len().saturating_sub(room);
        let data: Vec<u64> = view.trend.iter().skip(skip).map(|r| (r * 8.0) as u64).collect();
        frame.render_widget(Sparkline::default().block(block).data(data), right);
    }
}

fn event_lines(view: &LiveView, screen: ScreenState) -> Vec<Line<'static>> {
    let line = |(at, level, text): &(u64, EventLevel, String)| {
        Line::styled(format!("{:>6.1} s  {text}", *at as f64 / 1e3), screen.level(*level))
    };
    view.timeline().iter().rev().map(line).collect()
}

fn waiting(frame: &mut Frame<'_>, area: Rect, machine: &MachineInfo) {
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

/// Applies a key; `None` to quit.
pub fn press(screen: ScreenState, code: KeyCode, modifiers: KeyModifiers) -> Option<ScreenState> {
    let held = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c') if held => return None,
        KeyCode::Esc if screen.help => ScreenState { help: false, ..screen },
        KeyCode::Char('q') | KeyCode::Esc => return None,
        KeyCode::Char('?') | KeyCode::Char('h') => ScreenState { help: !screen.help, ..screen },
        KeyCode::Char('p') => ScreenState { paused: !screen.paused, ..screen },
        KeyCode::Up => ScreenState { skip: screen.skip.saturating_sub(1), ..screen },
        KeyCode::Down => {
            ScreenState { skip: screen.skip.saturating_add(1).min(3 * super::snapshot::MAX_ROWS), ..screen }
        }
        _ => screen,
    })
}

/// Runs the UI until the user quits; the terminal is restored in any case.
pub fn run(mut follower: Follower, machine: &MachineInfo, plain: bool) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &mut follower, machine, ScreenState { plain, ..ScreenState::default() });
    ratatui::try_restore()?;
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    follower: &mut Follower,
    machine: &MachineInfo,
    mut screen: ScreenState,
) -> io::Result<()> {
    let mut view = LiveView::default();
    let mut drawn = false;
    loop {
        let mut changed = follower.poll() && !screen.paused;
        if changed {
            view = follower.view().clone();
        }
        if event::poll(if changed { Duration::ZERO } else { POLL_INTERVAL })? {
            match event::read()? {
                Input::Key(key) if key.kind != KeyEventKind::Release => {
                    let Some(next) = press(screen, key.code, key.modifiers) else { return Ok(()) };
                    screen = next;
                    changed = true;
                }
                Input::Resize(..) => changed = true,
                _ => {}
            }
        }
        if changed || !drawn {
            terminal.draw(|frame| draw(frame, &view, machine, screen))?;
            drawn = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_bindings_match_the_help() {
        let none = KeyModifiers::NONE;
        let start = ScreenState::default();
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
