//! Every world that can be reached, breadth first, so that what is found is found in few steps.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::server::{Rule, Rules};
use super::world::{Action, World};

/// What no world may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// At rest with work that nobody is going to look for.
    Stuck,
    /// A batch told fewer of those that were parked than it had jobs for.
    ShortBurst,
    /// Workers go in a circle by themselves.
    Spin,
}

/// What a search came to.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing { worlds: usize },
    Fault { fault: Fault, path: Vec<Action> },
}

struct Search {
    rules: Rules,
    worlds: Vec<World>,
    places: HashMap<World, u32, BuildHasherDefault<Mix>>,
    /// Of each world the one before it, and how it came to be.
    before: Vec<(u32, Action)>,
    /// The worlds that each leads to by itself.
    prompt: Vec<Vec<u32>>,
}

/// Searches everything that a world can become, until a fault is found.
pub(crate) fn search(first: World, dropped: Option<Rule>) -> Found {
    let mut search = Search {
        rules: Rules { dropped },
        worlds: Vec::new(),
        places: HashMap::default(),
        before: Vec::new(),
        prompt: Vec::new(),
    };
    search.place(first.canonical(), (0, Action::Tick));
    let mut at = 0;
    while at < search.worlds.len() {
        if let Some(fault) = search.expand(at) {
            return Found::Fault { fault, path: search.path(at) };
        }
        at += 1;
    }
    match search.circle() {
        Some(at) => Found::Fault { fault: Fault::Spin, path: search.path(at) },
        None => Found::Nothing { worlds: search.worlds.len() },
    }
}

impl Search {
    fn place(&mut self, world: World, before: (u32, Action)) -> u32 {
        let new = u32::try_from(self.worlds.len()).expect("fewer worlds than that");
        let place = *self.places.entry(world).or_insert(new);
        if place == new {
            self.worlds.push(world);
            self.before.push(before);
        }
        place
    }

    /// Looks at a world, and places those after it.
    fn expand(&mut self, at: usize) -> Option<Fault> {
        let world = self.worlds[at];
        let steps = world.steps(self.rules);
        let rests = !steps.iter().any(|(action, _)| action.is_prompt());
        if world.short_burst {
            return Some(Fault::ShortBurst);
        }
        if rests && world.is_stuck() {
            return Some(Fault::Stuck);
        }
        let mut prompt = Vec::new();
        for (action, next) in steps {
            let place = self.place(next.canonical(), (at as u32, action));
            if action.is_prompt() {
                prompt.push(place);
            }
        }
        self.prompt.push(prompt);
        None
    }

    /// A world that leads back to itself without anything from outside.
    fn circle(&self) -> Option<usize> {
        // How many of those that lead to a world are left, when all that nothing leads to are
        // taken away one after the other. What is left in the end is in a circle or behind one.
        let mut leading = vec![0_u32; self.worlds.len()];
        self.prompt.iter().flatten().for_each(|to| leading[*to as usize] += 1);
        let mut free: Vec<usize> = (0..leading.len()).filter(|at| leading[*at] == 0).collect();
        let mut taken = 0;
        while let Some(at) = free.pop() {
            taken += 1;
            for to in &self.prompt[at] {
                leading[*to as usize] -= 1;
                if leading[*to as usize] == 0 {
                    free.push(*to as usize);
                }
            }
        }
        (taken < leading.len()).then(|| leading.iter().position(|n| *n > 0))?
    }

    /// How a world came to be, from the first.
    fn path(&self, mut at: usize) -> Vec<Action> {
        let mut path = Vec::new();
        while at != 0 {
            let (before, action) = self.before[at];
            path.push(action);
            at = before as usize;
        }
        path.reverse();
        path
    }
}

/// Worlds are many small numbers: a multiplication each is faster than the hash that withstands
/// hostile keys, of which there are none.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u8(number as u8);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
