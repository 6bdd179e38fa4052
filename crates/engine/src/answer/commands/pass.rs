//! A page on its way to the client.
//!
//! Owns: what stands on it in order: text, and the bodies of other requests. Those that nothing waits for are asked for
//! at the same time.
//! Driven by: `answer::include`, with each piece that comes to the filter of commands.
//! Why: as in nginx, `include` alone holds nothing up: ten of them take as long as the slowest. What is read ahead is
//! bounded by the number of requests under way, and by what each of them may be ahead of its place.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_plan::PageCommands;
use weir_wire::SendError;

use super::perform::{Done, Inclusion, perform, too_much};
use super::words;
use crate::answer::entity;
use crate::answer::include::{self, Asked, Included};
use crate::exchange::page::{Found, MOST_DEEP};
use crate::exchange::{Downstream, Exchange, Filters, Stub, Then, errors};

/// Requests of one page that are under way at a time.
const MOST_AT_ONCE: usize = 8;
/// Text that is gathered before it is sent.
const MOST_GATHERED: usize = 32 << 10;

/// What stands on a page, not sent yet.
enum Part {
    Text(Vec<u8>),
    Body(Box<dyn Included>),
}

#[derive(Default)]
struct Line {
    parts: VecDeque<Part>,
    bodies: usize,
    gathered: usize,
}

impl Line {
    fn text(&mut self, text: &[u8]) {
        self.gathered += text.len();
        match self.parts.back_mut() {
            Some(Part::Text(last)) => last.extend_from_slice(text),
            _ => self.parts.push_back(Part::Text(text.to_vec())),
        }
    }

    fn body(&mut self, body: Box<dyn Included>) {
        self.bodies += 1;
        self.parts.push_back(Part::Body(body));
    }

    fn is_full(&self) -> bool {
        self.bodies > MOST_AT_ONCE || self.gathered > MOST_GATHERED
    }

    fn pop(&mut self) -> Option<Part> {
        let part = self.parts.pop_front()?;
        match &part {
            Part::Text(text) => self.gathered -= text.len(),
            Part::Body(_) => self.bodies -= 1,
        }
        Some(part)
    }

    /// Lets those further back go on.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        for part in &mut self.parts {
            if let Part::Body(body) = part {
                body.poll_ahead(cx);
            }
        }
    }
}

/// Takes a piece through the filter of commands at a place, and on to the client.
pub(in crate::answer) async fn pass<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    at: usize,
    piece: &[u8],
    then: Then,
) -> Result<(), SendError> {
    let installed = exchange.installed.clone();
    let settings = &installed.plan.route(exchange.route).settings;
    let commands = settings.filters.as_ref().and_then(|filters| filters.commands.clone());
    let scan = exchange.page.as_mut().and_then(|page| page.scan.take());
    let (Some(commands), Some(mut scan)) = (commands, scan) else { return Err(SendError::Length) };
    let (mut line, mut rest) = (Line::default(), piece);
    while let Some(found) = scan.next(&mut rest) {
        let done = match found {
            Found::Text(text) => {
                show(exchange, &commands, &mut line, text);
                Ok(Done::Nothing)
            }
            Found::Command(command) => carry_out(exchange, &commands, command),
            Found::Broken(why) => Err(why),
        };
        let failed = match done {
            Ok(Done::Nothing) => None,
            Ok(Done::Text(text)) => {
                line.text(&text);
                None
            }
            Ok(Done::Include(inclusion)) => {
                include_one(exchange, down, (&mut *filters, at), &mut line, inclusion).await?
            }
            Err(why) => Some(why),
        };
        if let Some(why) = failed {
            fail(exchange, &commands, &mut line, &why);
        }
        while line.is_full() {
            send_next(exchange, down, (&mut *filters, at), &mut line).await?;
        }
    }
    if let Some(page) = &mut exchange.page {
        page.scan = Some(scan);
    }
    send_all(exchange, down, (&mut *filters, at), &mut line).await?;
    if then == Then::More {
        return Ok(());
    }
    include::onwards(exchange, down, filters, at + 1, b"", then).await
}

fn carry_out(
    exchange: &mut Exchange,
    commands: &Arc<PageCommands>,
    command: crate::exchange::page::Command,
) -> Result<Done, String> {
    let Some(page) = exchange.page.as_mut() else { return Ok(Done::Nothing) };
    let Some(known) = words::known(page, command)? else { return Ok(Done::Nothing) };
    let done = perform(exchange, commands, known);
    // A pattern of a `map` that gave up.
    match exchange.slots.take_doubt() {
        None => done,
        Some(why) => Err(why.to_string()),
    }
}

/// Puts text where it belongs: on the page, into a block, or nowhere.
fn show(exchange: &mut Exchange, commands: &PageCommands, line: &mut Line, text: &[u8]) {
    let Some(page) = &mut exchange.page else { return };
    if page.shows {
        return line.text(text);
    }
    let Some((_, block)) = &mut page.block else { return };
    if block.len() + text.len() <= crate::exchange::page::MOST_KEPT {
        return block.extend_from_slice(text);
    }
    page.block = None;
    let why = too_much(crate::exchange::page::TooMuch);
    fail(exchange, commands, line, &why);
}

fn fail(exchange: &mut Exchange, commands: &PageCommands, line: &mut Line, why: &str) {
    errors::error(exchange, why);
    if let Some(page) = exchange.page.as_ref().filter(|_| !commands.silent) {
        line.text(&page.error_text);
    }
}

type At<'f> = (&'f mut Filters, usize);

/// Asks for a body, and waits for it where it is to be waited for. `Some`: it cannot be asked for.
async fn include_one<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    (filters, at): At<'_>,
    line: &mut Line,
    inclusion: Inclusion,
) -> Result<Option<String>, SendError> {
    let Inclusion { path, query, wait, set, stub } = inclusion;
    let depth = exchange.asked_for.as_ref().map_or(0, |asked| asked.depth);
    let shared = exchange.page.as_ref().map(|page| page.shared.clone());
    if depth >= MOST_DEEP {
        return Ok(Some(format!("subrequests cycle while processing \"{}\"", path.escape_ascii())));
    }
    if let Some(Err(too)) = shared.as_ref().map(|shared| shared.ask()) {
        return Ok(Some(too_much(too)));
    }
    let content_type = entity::content_type(exchange).unwrap_or_default().to_vec();
    let stub = stub.map(|body| Stub { body, content_type });
    let Some(mut body) = include::ask(exchange, Asked { path: &path, query: &query, stub, slice: None })
    else {
        return Err(SendError::Length);
    };
    let Some(name) = set else {
        line.body(body);
        if wait {
            send_all(exchange, down, (filters, at), line).await?;
        }
        return Ok(None);
    };
    send_all(exchange, down, (&mut *filters, at), line).await?;
    include::flush(exchange, down, filters, at + 1).await?;
    let mut value = Vec::new();
    while let Some(piece) = include::cut_to(exchange, poll_fn(|cx| body.poll_piece(cx)).await)? {
        if value.len() + piece.len() > body.most_kept() {
            errors::error(exchange, &format!("too big subrequest response: \"{}\"", path.escape_ascii()));
            return Err(SendError::Length);
        }
        value.extend_from_slice(&piece);
    }
    let fine = body.status() < 300;
    let Some(shared) = shared else { return Ok(None) };
    let kept = if fine && !value.is_empty() {
        shared.set(name, value)
    } else if shared.value(&name).is_none() {
        shared.set(name, Vec::new())
    } else {
        Ok(())
    };
    Ok(kept.err().map(too_much))
}

async fn send_all<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    (filters, at): At<'_>,
    line: &mut Line,
) -> Result<(), SendError> {
    while !line.parts.is_empty() {
        send_next(exchange, down, (&mut *filters, at), line).await?;
    }
    Ok(())
}

/// Sends what stands first.
async fn send_next<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    (filters, at): At<'_>,
    line: &mut Line,
) -> Result<(), SendError> {
    let mut body = match line.pop() {
        None => return Ok(()),
        Some(Part::Text(text)) => {
            return include::onwards(exchange, down, filters, at + 1, &text, Then::More).await;
        }
        Some(Part::Body(body)) => body,
    };
    loop {
        let mut poll = |cx: &mut Context<'_>| {
            line.poll_ahead(cx);
            body.poll_piece(cx)
        };
        // What is here leaves before anything is waited for.
        let next = match poll_fn(|cx| Poll::Ready(poll(cx))).await {
            Poll::Ready(next) => next,
            Poll::Pending => {
                include::flush(exchange, down, filters, at + 1).await?;
                poll_fn(poll).await
            }
        };
        match include::cut_to(exchange, next)? {
            Some(piece) => {
                include::onwards(exchange, down, filters, at + 1, &piece, Then::More).await?;
            }
            None => return Ok(()),
        }
    }
}
