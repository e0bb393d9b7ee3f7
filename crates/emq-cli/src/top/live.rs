//! Runs the view: keys and news go into the model, and the model onto the screen.

use std::time::{Duration, Instant};

use emq_core::{Bus, Error};
use emq_keys::QueueName;
use ratatui::crossterm::event::Event;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::act::carry_out;
use super::draw::{Look, draw};
use super::model::{Model, Reaction};
use super::reading::{Reading, Wanted};
use super::sampling::Sampler;
use super::terminal::{self, Taken};
use crate::exit::Failure;

/// How much news waits for the screen.
const NEWS: usize = 64;
/// How many of a key's deeds may be under way at once.
const DEEDS: usize = 16;
/// How often the clocks on the screen are brought up to date.
const TICK: Duration = Duration::from_secs(1);

/// How the view is to be.
pub(super) struct View {
    pub(super) server: String,
    pub(super) names: Vec<QueueName>,
    pub(super) every: Duration,
    pub(super) look: Look,
}

/// Shows the bus until the user has seen enough.
pub(super) async fn run(bus: Bus, view: View) -> Result<(), Failure> {
    let mut end = Ends::hear()?;
    let mut taken = Taken::take()?;
    let height = taken.terminal.size().map(|size| size.height).map_err(gone)?;
    let mut model = Model::new(view.server, height);
    let (wanted, to_read) = watch::channel(model.wanted());
    let (tell, mut news) = mpsc::channel(NEWS);
    let sampler = Sampler::new(bus.clone(), view.names, to_read, tell);
    let mut sampling = tokio::spawn(sampler.run(view.every));
    let mut events = terminal::events();
    let mut deeds: JoinSet<(String, bool)> = JoinSet::new();
    let mut link = bus.state();
    let mut tick = tokio::time::interval(TICK);
    loop {
        taken
            .terminal
            .draw(|frame| draw(frame, &model, Instant::now(), view.look))
            .map_err(gone)?;
        tokio::select! {
            event = events.recv() => match event {
                None => return Err(Failure::failed("the terminal is gone")),
                Some(Event::Key(key)) => match model.key(key) {
                    Reaction::Quit => return Ok(()),
                    Reaction::Do(_) if deeds.len() >= DEEDS => {
                        model.say("too much is under way; wait a little", true);
                    }
                    Reaction::Do(act) => drop(deeds.spawn(carry_out(bus.clone(), act))),
                    Reaction::Nothing => {}
                },
                Some(Event::Resize(_, height)) => model.resize(height),
                Some(_) => {}
            },
            Some(reading) = news.recv() => take_all(&mut model, reading, &mut news),
            Some(deed) = deeds.join_next() => {
                let (line, is_bad) = deed.map_err(|error| burst(&error))?;
                model.say(line, is_bad);
            }
            ended = &mut sampling => return ended_with(ended),
            Ok(()) = link.changed() => see_link(&mut model, &bus),
            _ = tick.tick() => {}
            () = end.come() => return Ok(()),
        }
        model.pass(Instant::now());
        want(&wanted, &model);
    }
}

/// What came together is drawn together.
fn take_all(model: &mut Model, first: Reading, news: &mut mpsc::Receiver<Reading>) {
    model.take(first);
    for _ in 0..NEWS {
        match news.try_recv() {
            Ok(reading) => model.take(reading),
            Err(_) => return,
        }
    }
}

/// Reading fails only after a while; the connection knows sooner.
fn see_link(model: &mut Model, bus: &Bus) {
    if !bus.is_connected() {
        model.lost("the connection is lost; it is tried again".to_owned());
    }
}

/// Tells the sampler only when something else is to be read.
fn want(wanted: &watch::Sender<Wanted>, model: &Model) {
    let now = model.wanted();
    wanted.send_if_modified(|last| {
        let changed = *last != now;
        if changed {
            *last = now;
        }
        changed
    });
}

fn ended_with(ended: Result<Result<(), Error>, JoinError>) -> Result<(), Failure> {
    Ok(ended.map_err(|error| burst(&error))??)
}

/// The panic told its message itself, on the terminal as it was before.
fn burst(error: &JoinError) -> Failure {
    Failure::failed(format!("a part of the view ended: {error}"))
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn gone(error: std::io::Error) -> Failure {
    Failure::failed(format!("the terminal is gone: {error}"))
}

/// The signals that end the view as `q` does.
struct Ends {
    hear: [tokio::signal::unix::Signal; 3],
}

impl Ends {
    fn hear() -> Result<Ends, Failure> {
        let of = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("can't hear signals: {error}")))
        };
        let hear =
            [of(SignalKind::terminate())?, of(SignalKind::hangup())?, of(SignalKind::interrupt())?];
        Ok(Ends { hear })
    }

    async fn come(&mut self) {
        let [term, hangup, interrupt] = &mut self.hear;
        tokio::select! {
            _ = term.recv() => {}
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
