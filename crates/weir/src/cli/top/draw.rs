//! The screen of `weir top`, and its text.
//!
//! Owns: what is chosen (table, row, order, filter), what keys do, how tables are drawn.
//! Never: reads a key or a document itself.
//! Driven by: `top`.

use std::cmp::Ordering;
use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell as TableCell, Paragraph, Row as TableRow, Table, TableState};

use super::tables::{Cell, History, Key, Mood, Shown, Summary, View, bytes, duration, number, percent, rate};

/// The tables that digits lead to.
const TABS: [(Shown, &str); 6] = [
    (Shown::Pools, "Pools"),
    (Shown::Sites, "Sites"),
    (Shown::Routes, "Routes"),
    (Shown::InFlight, "In flight"),
    (Shown::Slowest, "Slowest"),
    (Shown::Failed, "Failed"),
];

/// What a key asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Another picture at most.
    Nothing,
    /// The end.
    End,
}

/// What is chosen.
pub(super) struct Screen {
    place: String,
    shown: Shown,
    selected: TableState,
    /// A column, and whether the least comes first.
    sort: Option<(usize, bool)>,
    filter: String,
    /// The filter is being typed.
    typing: bool,
    colors: bool,
    pub(super) paused: bool,
    /// Why there was no answer.
    pub(super) trouble: Option<String>,
}

impl Screen {
    /// The pools of the server at this place.
    pub(super) fn new(place: String) -> Self {
        Self {
            place,
            shown: Shown::Pools,
            selected: TableState::default().with_selected(0),
            sort: None,
            filter: String::new(),
            typing: false,
            // https://no-color.org
            colors: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            paused: false,
            trouble: None,
        }
    }

    /// Which table.
    pub(super) fn shown(&self) -> &Shown {
        &self.shown
    }

    fn open(&mut self, shown: Shown) {
        if self.shown != shown {
            (self.shown, self.sort) = (shown, None);
            self.filter.clear();
            self.selected = TableState::default().with_selected(0);
        }
    }

    fn tab(&self) -> usize {
        let of = |shown: &Shown| TABS.iter().position(|(one, _)| one == shown);
        of(&self.shown).unwrap_or(0)
    }

    /// Obeys a key.
    pub(super) fn key(&mut self, key: KeyEvent, view: &View) -> Asked {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Asked::End;
        }
        if self.typing {
            match key.code {
                KeyCode::Char(c) if !control && self.filter.len() < 64 => self.filter.push(c),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Esc => {
                    self.filter.clear();
                    self.typing = false;
                }
                KeyCode::Enter => self.typing = false,
                _ => {}
            }
            return Asked::Nothing;
        }
        match key.code {
            KeyCode::Char('q') => return Asked::End,
            KeyCode::Char(c @ '1'..='6') => self.open(TABS[c as usize - '1' as usize].0.clone()),
            KeyCode::Tab => self.open(TABS[(self.tab() + 1) % TABS.len()].0.clone()),
            KeyCode::BackTab => self.open(TABS[(self.tab() + TABS.len() - 1) % TABS.len()].0.clone()),
            KeyCode::Enter if self.shown == Shown::Pools => {
                let chosen = self.selected.selected().and_then(|at| rows(view, self).into_iter().nth(at));
                if let Some(name) = chosen.map(|at| view.rows[at].name.clone()) {
                    self.open(Shown::Pool(name));
                }
            }
            KeyCode::Esc | KeyCode::Backspace => match &self.shown {
                _ if !self.filter.is_empty() => self.filter.clear(),
                Shown::Pool(_) => self.open(Shown::Pools),
                _ => {}
            },
            KeyCode::Char('s') => {
                let next = self.sort.map_or(0, |(column, _)| column + 1);
                self.sort = (next < view.columns.len()).then_some((next, !view.columns[next].right));
            }
            KeyCode::Char('S') => self.sort = self.sort.map(|(column, least)| (column, !least)),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.selected.select_previous(),
            KeyCode::Down | KeyCode::Char('j') => self.selected.select_next(),
            KeyCode::PageUp => self.selected.scroll_up_by(10),
            KeyCode::PageDown => self.selected.scroll_down_by(10),
            KeyCode::Home => self.selected.select_first(),
            KeyCode::End => self.selected.select_last(),
            _ => {}
        }
        let last = rows(view, self).len().saturating_sub(1);
        if self.selected.selected().is_none_or(|at| at > last) {
            self.selected.select(Some(last));
        }
        Asked::Nothing
    }
}

/// The rows that are shown, in their order.
fn rows(view: &View, screen: &Screen) -> Vec<usize> {
    let wanted = screen.filter.to_lowercase();
    let holds = |at: &usize| {
        let cells = &view.rows[*at].cells;
        wanted.is_empty() || cells.iter().any(|cell| cell.text.to_lowercase().contains(&wanted))
    };
    let mut all: Vec<usize> = (0..view.rows.len()).filter(holds).collect();
    if let Some((column, least)) = screen.sort {
        let key = |at: usize| view.rows[at].cells.get(column).map(|cell| &cell.key);
        all.sort_by(|&a, &b| {
            let order = compare(key(a), key(b));
            if least { order } else { order.reverse() }
        });
    }
    all
}

fn compare(a: Option<&Key>, b: Option<&Key>) -> Ordering {
    match (a, b) {
        (Some(Key::Figure(a)), Some(Key::Figure(b))) => a.total_cmp(b),
        (Some(Key::Text(a)), Some(Key::Text(b))) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

/// Draws all of it.
pub(super) fn frame(frame: &mut Frame<'_>, history: &History, view: &View, screen: &mut Screen) {
    let [head, tabs, body, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(history, screen)), head);
    frame.render_widget(Paragraph::new(tab_line(screen)), tabs);
    table(frame, body, view, screen);
    frame.render_widget(Paragraph::new(key_line(screen)).style(dim(screen)), keys);
}

fn dim(screen: &Screen) -> Style {
    if screen.colors { Style::new().fg(Color::DarkGray) } else { Style::new() }
}

fn style(screen: &Screen, mood: Mood) -> Style {
    let color = match mood {
        _ if !screen.colors => return Style::new(),
        Mood::Plain => return Style::new(),
        Mood::Good => Color::Green,
        Mood::Warn => Color::Yellow,
        Mood::Bad => Color::Red,
    };
    Style::new().fg(color)
}

fn summary(history: &History, screen: &Screen) -> Vec<Line<'static>> {
    let Some((now, ..)) = history.ends() else { return Vec::new() };
    let process = &now.process;
    let first = format!(
        "weir {} on {}  up {}  plan {}  {} workers, {}",
        process.version,
        process.node,
        duration(process.uptime_ms as f64 * 1000.0),
        process.plan,
        process.workers,
        process.driver.split(" ").next().unwrap_or_default()
    );
    let mut first = vec![Span::styled(first, Style::new().add_modifier(Modifier::BOLD))];
    let said = match &screen.trouble {
        Some(why) => Some((why.clone(), Mood::Bad)),
        None if screen.paused => Some(("paused".into(), Mood::Warn)),
        None if process.stopping => Some(("draining".into(), Mood::Warn)),
        None => None,
    };
    if let Some((said, mood)) = said {
        first.push(Span::styled(format!("  {said}"), style(screen, mood)));
    }
    vec![Line::from(first), Line::from(second(history))]
}

/// The figures of the process.
fn second(history: &History) -> String {
    let (Some((now, ..)), Some(sum)) = (history.ends(), Summary::of(history)) else { return String::new() };
    let process = &now.process;
    let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), duration);
    let failed = if sum.requests > 0.0 { sum.failed / sum.requests } else { 0.0 };
    let most = match process.max_connections {
        0 => String::new(),
        most => format!("/{}", number(most as f64)),
    };
    let budget = match process.memory_budget {
        0 => String::new(),
        most => format!("/{}", bytes(most as f64)),
    };
    format!(
        "{} req/s  {} 5xx  p50 {}  p99 {}  {} flying  {}{most} conns  {}/s  mem {}{budget}",
        rate(sum.requests),
        percent(failed),
        of(sum.p50),
        of(sum.p99),
        number(now.requests.total as f64),
        number(process.connections.active as f64),
        bytes(sum.sent),
        bytes(process.memory_in_use as f64),
    )
}

fn tab_line(screen: &Screen) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, (_, name)) in TABS.iter().enumerate() {
        let chosen = at == screen.tab();
        let style = if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let inside = match &screen.shown {
            Shown::Pool(pool) if chosen => format!(" > {pool}"),
            _ => String::new(),
        };
        spans.push(Span::styled(format!(" {} {name}{inside} ", at + 1), style));
    }
    Line::from(spans)
}

fn table(frame: &mut Frame<'_>, area: Rect, view: &View, screen: &mut Screen) {
    let shown = rows(view, screen);
    if shown.is_empty() {
        let why = if view.rows.is_empty() { view.empty } else { "nothing has the text of the filter" };
        frame.render_widget(Paragraph::new(format!("\n  {why}")).style(dim(screen)), area);
        return;
    }
    let header = view.columns.iter().enumerate().map(|(at, column)| {
        let mark = match screen.sort {
            Some((sorted, least)) if sorted == at => {
                if least {
                    "^"
                } else {
                    "v"
                }
            }
            _ => "",
        };
        let text = Line::from(format!("{}{mark}", column.title));
        TableCell::from(if column.right { text.alignment(Alignment::Right) } else { text })
    });
    let header = TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD));
    let body = shown.iter().map(|&at| {
        TableRow::new(view.rows[at].cells.iter().zip(&view.columns).map(|(cell, column)| {
            let line = Line::from(Span::styled(cell.text.clone(), style(screen, cell.mood)));
            TableCell::from(if column.right { line.alignment(Alignment::Right) } else { line })
        }))
    });
    let widths: Vec<Constraint> = view
        .columns
        .iter()
        .map(|column| column.width.map_or(Constraint::Min(10), Constraint::Length))
        .collect();
    let table = Table::new(body, widths)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut screen.selected);
}

fn key_line(screen: &Screen) -> String {
    if screen.typing {
        return format!("/{}_   Enter keeps it, Esc clears it", screen.filter);
    }
    let filter = if screen.filter.is_empty() { String::new() } else { format!("[{}] ", screen.filter) };
    let inside = match screen.shown {
        Shown::Pools => "Enter open  ",
        Shown::Pool(_) => "Esc back  ",
        _ => "",
    };
    format!("{filter}{inside}1-6 Tab tables  s S sort  / filter  p pause  q end   {}", screen.place)
}

/// All tables as text.
pub(super) fn text(history: &History) -> String {
    let mut out = String::new();
    if let Some((now, ..)) = history.ends() {
        let process = &now.process;
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "weir {} on {}, plan {}", process.version, process.node, process.plan);
        let _ = writeln!(out, "{}", second(history));
        let mut all: Vec<Shown> = TABS.iter().map(|(shown, _)| shown.clone()).collect();
        let pools = now.pools.iter().map(|pool| Shown::Pool(pool.name.clone()));
        all.splice(1..1, pools);
        for shown in all {
            append(&mut out, &View::of(history, &shown));
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn append(out: &mut String, view: &View) {
    let _ = writeln!(out, "\n{}", view.title);
    if view.rows.is_empty() {
        let _ = writeln!(out, "  {}", view.empty);
        return;
    }
    let width = |at: usize| {
        let cells = view.rows.iter().map(|row| row.cells[at].text.chars().count());
        cells.chain([view.columns[at].title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..view.columns.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from(" ");
        for ((cell, column), &width) in cells.zip(&view.columns).zip(&widths) {
            let _ = match column.right {
                true => write!(text, " {cell:>width$}"),
                false => write!(text, " {cell:width$}"),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(&mut view.columns.iter().map(|column| column.title));
    for row in &view.rows {
        line(&mut row.cells.iter().map(|cell: &Cell| cell.text.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::document::{Classes, Document, Endpoint, Pool, Site};
    use super::*;

    fn document(second: u64) -> Box<Document> {
        let responses = |n: u64| Classes::from([("2xx".to_owned(), n), ("5xx".to_owned(), second)]);
        let endpoint = |name: &str, attempts| Endpoint {
            name: name.into(),
            address: name.into(),
            state: "up".into(),
            attempts,
            ..Endpoint::default()
        };
        let pool = |name: &str, rate| {
            let mut pool = Pool {
                name: name.into(),
                active: 2,
                endpoint_count: 2,
                responses: responses(rate * second),
                endpoints: vec![endpoint("one", 3 * second), endpoint("two", second)],
                ..Pool::default()
            };
            pool.latency.first_byte.steps = vec![(1023, second), (2047, second)];
            pool
        };
        let site = Site { name: "www".into(), responses: responses(10 * second), ..Site::default() };
        Box::new(Document {
            now_unix_ms: second * 1000,
            sites: vec![site],
            pools: vec![pool("app", 10), pool("zoo", 50), pool("bar", 20)],
            ..Document::default()
        })
    }

    fn history() -> History {
        let mut history = History::new(std::time::Duration::from_secs(5));
        history.take(document(1));
        history.take(document(3));
        history
    }

    fn press(screen: &mut Screen, history: &History, keys: &str) -> Asked {
        let mut asked = Asked::Nothing;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                '↓' => KeyCode::Down,
                key => KeyCode::Char(key),
            };
            let view = View::of(history, screen.shown());
            asked = screen.key(KeyEvent::from(code), &view);
        }
        asked
    }

    fn drawn(screen: &mut Screen, history: &History) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap_or_else(|never| match never {});
        let view = View::of(history, screen.shown());
        let _ = terminal.draw(|area| frame(area, history, &view, screen));
        let buffer = terminal.backend().buffer();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..24).map(line).collect()
    }

    #[test]
    fn a_screen_of_80_by_24_shows_all_columns() {
        let (history, mut screen) = (history(), Screen::new("http://a/".into()));
        let lines = drawn(&mut screen, &history);
        assert!(lines[1].starts_with("11 req/s"), "{}", lines[1]);
        assert!(lines[3].starts_with("Pool") && lines[3].ends_with("Queued"), "{}", lines[3]);
        let pool: Vec<&str> = lines[4].split_whitespace().collect();
        assert_eq!(pool, ["app", "2/2", "11", "1.0", "1.0ms", "2.0ms", "2.0ms", "0", "0"]);
        assert!(lines[23].contains("q end") && lines[23].contains("s S sort"), "{}", lines[23]);
    }

    #[test]
    fn keys_sort_filter_and_lead_into_a_pool_and_back() {
        let (history, mut screen) = (history(), Screen::new("http://a/".into()));
        let names = |screen: &mut Screen| -> Vec<String> {
            let lines = drawn(screen, &history);
            let shown = lines[4..23].iter().filter_map(|line| line.split_whitespace().next());
            shown.map(str::to_owned).collect()
        };
        press(&mut screen, &history, "s");
        assert_eq!(names(&mut screen), ["app", "bar", "zoo"]);
        press(&mut screen, &history, "ss");
        assert_eq!(names(&mut screen), ["zoo", "bar", "app"]);
        press(&mut screen, &history, "S");
        assert_eq!(names(&mut screen), ["app", "bar", "zoo"]);
        press(&mut screen, &history, "/A\n");
        assert_eq!(names(&mut screen), ["app", "bar"]);
        press(&mut screen, &history, "↓\n");
        assert_eq!(screen.shown(), &Shown::Pool("bar".into()));
        let lines = drawn(&mut screen, &history);
        assert!(lines[2].starts_with(" 1 Pools > bar "), "{}", lines[2]);
        assert!(
            lines[4].starts_with("one") && lines[4].contains("75%") && lines[4].contains("up"),
            "{}",
            lines[4]
        );
        press(&mut screen, &history, "\u{1b}");
        assert_eq!(screen.shown(), &Shown::Pools);
        press(&mut screen, &history, "4\t");
        assert_eq!(screen.shown(), &Shown::Slowest);
        assert!(drawn(&mut screen, &history)[4].contains("no request has ended"));
        assert_eq!(press(&mut screen, &history, "/q\n"), Asked::Nothing, "it is typed");
        assert_eq!(press(&mut screen, &history, "q"), Asked::End);
    }

    #[test]
    fn the_text_has_every_table() {
        let text = text(&history());
        for part in [
            "\nPools\n",
            "Endpoints of zoo\n",
            "\nSites\n",
            "\nRoutes\n",
            "In flight: 0\n",
            "Failed\n  no request",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
