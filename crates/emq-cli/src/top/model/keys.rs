//! What a key does.

use emq_keys::{BrandedId, QueueName};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Asked, Focus, Mode, Model, Page, Pane};

/// What the caller does about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) enum Reaction {
    Nothing,
    Quit,
    Do(Act),
}

/// Something that changes the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) enum Act {
    PauseQueue(QueueName),
    ResumeQueue(QueueName),
    PauseLane(QueueName, BrandedId),
    ResumeLane(QueueName, BrandedId),
    /// `None` takes the ceiling away.
    Limit(QueueName, BrandedId, Option<u32>),
    Weigh(QueueName, BrandedId, u32),
    Requeue(QueueName, BrandedId),
    RequeueAll(QueueName),
}

/// How many digits can be typed; the largest setting has ten.
const DIGITS: usize = 10;

impl Model {
    pub(in crate::top) fn key(&mut self, key: KeyEvent) -> Reaction {
        if key.kind == KeyEventKind::Release {
            return Reaction::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Reaction::Quit;
        }
        // What no key here is for: an Alt-p is no p.
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Reaction::Nothing;
        }
        match std::mem::replace(&mut self.mode, Mode::Watch) {
            Mode::Watch => self.watch(key.code),
            // Any key closes it.
            Mode::Help => Reaction::Nothing,
            Mode::Confirm(act) => match key.code {
                KeyCode::Char('y' | 'Y') => Reaction::Do(act),
                _ => self.nothing_done(),
            },
            Mode::Ask { what, queue, lane, typed } => {
                self.type_on(key.code, what, queue, lane, typed)
            }
        }
    }

    fn watch(&mut self, code: KeyCode) -> Reaction {
        match code {
            KeyCode::Char('q') => return Reaction::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Tab | KeyCode::BackTab | KeyCode::Enter => self.change_focus(),
            KeyCode::Esc => self.focus = Focus::Queues,
            KeyCode::Char('1') => self.turn_to(Pane::Lanes),
            KeyCode::Char('2') => self.turn_to(Pane::Workers),
            KeyCode::Char('3') => self.turn_to(Pane::Morgue),
            KeyCode::Left => self.turn_to(self.pane.before()),
            KeyCode::Right => self.turn_to(self.pane.after()),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.turn_page(-1),
            KeyCode::PageDown => self.turn_page(1),
            KeyCode::Home => self.first(),
            KeyCode::Char('p') => return self.pause(),
            KeyCode::Char('r') => return self.resume(),
            KeyCode::Char('l') => self.ask(Asked::Ceiling),
            KeyCode::Char('w') => self.ask(Asked::Weight),
            KeyCode::Char('u') => return self.requeue(),
            KeyCode::Char('U') => self.requeue_all(),
            _ => {}
        }
        Reaction::Nothing
    }

    fn change_focus(&mut self) {
        self.focus = match self.focus {
            Focus::Queues => Focus::Pane,
            Focus::Pane => Focus::Queues,
        };
    }

    fn step(&mut self, by: isize) {
        match self.focus {
            Focus::Queues => self.select(self.selected.saturating_add_signed(by)),
            Focus::Pane => {
                let row = self.row.saturating_add_signed(by);
                self.row = row.min(self.pane_rows().saturating_sub(1));
            }
        }
    }

    fn turn_page(&mut self, by: isize) {
        if self.focus == Focus::Queues {
            let rows = self.rows.queues as isize;
            return self.select(self.selected.saturating_add_signed(by * rows));
        }
        let more = match self.pane {
            Pane::Lanes => self.lanes.more,
            Pane::Morgue => self.letters.more,
            Pane::Workers => false,
        };
        if by < 0 || more {
            let page = self.page.saturating_add_signed(by);
            if page != self.page {
                // One turn at a time: the next page is known only once this one was read.
                (self.page, self.row) = (page, 0);
                (self.lanes, self.letters) = (Page::default(), Page::default());
            }
        }
    }

    fn first(&mut self) {
        match self.focus {
            Focus::Queues => self.select(0),
            Focus::Pane => (self.page, self.row) = (0, 0),
        }
    }

    /// The lane that the keys are about.
    fn lane(&self) -> Option<(QueueName, BrandedId)> {
        let on_lanes = self.focus == Focus::Pane && self.pane == Pane::Lanes;
        let lane = self.lanes.rows.get(self.row).filter(|_| on_lanes)?;
        Some((self.queue()?.clone(), lane.id))
    }

    fn pause(&mut self) -> Reaction {
        match (self.lane(), self.queue()) {
            (Some((queue, lane)), _) => Reaction::Do(Act::PauseLane(queue, lane)),
            (None, Some(queue)) if self.focus == Focus::Queues => {
                Reaction::Do(Act::PauseQueue(queue.clone()))
            }
            _ => self.hint("select a queue, or a lane, to pause it"),
        }
    }

    fn resume(&mut self) -> Reaction {
        match (self.lane(), self.queue()) {
            (Some((queue, lane)), _) => Reaction::Do(Act::ResumeLane(queue, lane)),
            (None, Some(queue)) if self.focus == Focus::Queues => {
                Reaction::Do(Act::ResumeQueue(queue.clone()))
            }
            _ => self.hint("select a queue, or a lane, to resume it"),
        }
    }

    fn ask(&mut self, what: Asked) {
        match self.lane() {
            Some((queue, lane)) => {
                self.mode = Mode::Ask { what, queue, lane, typed: String::new() };
            }
            None => drop(self.hint("select a lane first: 1, then Tab")),
        }
    }

    fn type_on(
        &mut self,
        code: KeyCode,
        what: Asked,
        queue: QueueName,
        lane: BrandedId,
        mut typed: String,
    ) -> Reaction {
        match code {
            KeyCode::Esc => return self.nothing_done(),
            KeyCode::Enter => return self.answer(what, queue, lane, &typed),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(digit) if digit.is_ascii_digit() && typed.len() < DIGITS => {
                typed.push(digit);
            }
            _ => {}
        }
        self.mode = Mode::Ask { what, queue, lane, typed };
        Reaction::Nothing
    }

    fn answer(&mut self, what: Asked, queue: QueueName, lane: BrandedId, typed: &str) -> Reaction {
        let number = typed.parse::<u32>();
        match (what, number) {
            (Asked::Ceiling, Ok(0)) => Reaction::Do(Act::Limit(queue, lane, None)),
            (Asked::Ceiling, Ok(ceiling)) => Reaction::Do(Act::Limit(queue, lane, Some(ceiling))),
            (Asked::Weight, Ok(weight)) => Reaction::Do(Act::Weigh(queue, lane, weight)),
            (_, Err(_)) => self.nothing_done(),
        }
    }

    fn requeue(&mut self) -> Reaction {
        let on_letters = self.focus == Focus::Pane && self.pane == Pane::Morgue;
        let letter = self.letters.rows.get(self.row).filter(|_| on_letters);
        match (self.queue(), letter) {
            (Some(queue), Some(letter)) => Reaction::Do(Act::Requeue(queue.clone(), letter.id)),
            _ => self.hint("select a dead letter first: 3, then Tab"),
        }
    }

    fn requeue_all(&mut self) {
        match self.queue() {
            Some(queue) if self.pane == Pane::Morgue => {
                self.mode = Mode::Confirm(Act::RequeueAll(queue.clone()));
            }
            _ => drop(self.hint("look at a morgue first: 3")),
        }
    }

    fn hint(&mut self, text: &str) -> Reaction {
        self.say(text, true);
        Reaction::Nothing
    }

    fn nothing_done(&mut self) -> Reaction {
        self.say("nothing was changed", false);
        Reaction::Nothing
    }

    fn pane_rows(&self) -> usize {
        match self.pane {
            Pane::Lanes => self.lanes.rows.len(),
            Pane::Workers => self.crew.workers().len(),
            Pane::Morgue => self.letters.rows.len(),
        }
    }
}

impl Pane {
    pub(in crate::top) const ALL: [Pane; 3] = [Pane::Lanes, Pane::Workers, Pane::Morgue];

    fn before(self) -> Pane {
        match self {
            Pane::Lanes | Pane::Workers => Pane::Lanes,
            Pane::Morgue => Pane::Workers,
        }
    }

    fn after(self) -> Pane {
        match self {
            Pane::Lanes => Pane::Workers,
            Pane::Workers | Pane::Morgue => Pane::Morgue,
        }
    }
}
