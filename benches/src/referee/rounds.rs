//! The rounds: in each, every side plays once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Failure;
use super::board::Board;
use super::ground::{Ground, at};
use super::line::{Fields, Line, Outcome};
use super::play::{Next, Play, Program};
use super::proxy::Proxy;
use super::row::{Place, asked_at};
use super::side::{Side, Store};
use super::size::{Extent, size};

/// What the proxy adds in each direction: a millisecond there and back.
pub const ONE_WAY: Duration = Duration::from_micros(500);

/// Who plays how.
#[derive(Debug)]
pub struct Rounds {
    /// The program of each side that plays, by [`Side::program`].
    pub programs: BTreeMap<String, Program>,
    /// How much is measured.
    pub extent: Extent,
    /// How long a contender may be silent.
    pub silence: Duration,
}

impl Rounds {
    /// Plays one round.
    ///
    /// # Errors
    /// When a server can't be had. What goes wrong with a contender is on the board.
    pub async fn play(&self, board: &mut Board, round: usize) -> Result<(), Failure> {
        let mut sides: Vec<&'static Side> = board.seats.iter().map(|seat| seat.side).collect();
        // Nobody is always the one after the same other.
        let count = sides.len().max(1);
        sides.rotate_left(round % count);
        for side in sides {
            let Some(program) = self.programs.get(side.program) else { continue };
            let begun = Instant::now();
            for place in [Place::Near, Place::Far, Place::Killed] {
                let rows = self.rows(board, side, place);
                if self.spares(side, place, round) {
                    continue;
                }
                match place {
                    _ if rows.is_empty() => {}
                    Place::Killed => self.recovery(board, round, side, program).await?,
                    _ => self.rows_at(board, round, side, program, place, rows).await?,
                }
            }
            let took = begun.elapsed().as_secs_f64();
            eprintln!("round {}, {}: {took:.1} s", round + 1, side.name);
        }
        Ok(())
    }

    /// The protocol's rows that a side plays at a place.
    fn rows(&self, board: &Board, side: &Side, place: Place) -> Vec<&'static str> {
        let mut asked = asked_at(place, &board.rows);
        asked.retain(|row| Rounds::has(side, place, row) && !board.lacks(side, place, row));
        asked
    }

    /// Whether a quick run leaves this out, so that all sides fit into its time.
    fn spares(&self, side: &Side, place: Place, round: usize) -> bool {
        self.extent == Extent::Quick && !side.ours && place != Place::Near && round > 0
    }

    /// Whether a row is played with a side at all.
    #[must_use]
    pub fn has(side: &Side, place: Place, asked: &str) -> bool {
        let there = match place {
            Place::Near => true,
            // Latency is added for those that are otherwise as near: volatile servers.
            Place::Far => side.store == Store::Volatile,
            // What ours does after a loss of everything isn't asked: two durable ones of ours play.
            Place::Killed => !(side.ours && side.store == Store::Volatile),
        };
        there && (side.only.is_empty() || (place == Place::Near && side.only.contains(&asked)))
    }

    /// Rows on a fresh server; after a contender's death the rest on another.
    async fn rows_at(
        &self,
        board: &mut Board,
        round: usize,
        side: &'static Side,
        program: &Program,
        place: Place,
        mut rows: Vec<&'static str>,
    ) -> Result<(), Failure> {
        while !rows.is_empty() {
            let ground = Ground::start(side.store).await?;
            let (variable, mut url) = ground.variable();
            let proxy = match (place, ground.valkey_address()) {
                (Place::Far, Some(server)) => Some(Proxy::start(server, ONE_WAY)?),
                _ => None,
            };
            if let Some(proxy) = &proxy {
                url = at(proxy.port());
            }
            let orders = self.orders(side, &rows);
            let play = Play::start(program, side, (variable, &url), &orders, self.silence);
            let ended = match play {
                Ok(play) => self.hear(board, round, side, place, play, &mut rows).await,
                Err(failure) => Err(failure.to_string()),
            };
            if let (Err(what), false) = (ended, rows.is_empty()) {
                board.note(round, side, place, rows.remove(0), &Outcome::Failed(what));
            }
        }
        Ok(())
    }

    /// Takes lines in, and each row that is told out of `rows`. An error is the contender's.
    async fn hear(
        &self,
        board: &mut Board,
        round: usize,
        side: &'static Side,
        place: Place,
        mut play: Play,
        rows: &mut Vec<&'static str>,
    ) -> Result<(), String> {
        loop {
            match play.next().await.map_err(|failure| failure.to_string())? {
                Next::Line(Line::Versions(parts)) => board.introduced(side, parts),
                Next::Line(Line::Served(_)) => {}
                Next::Line(Line::Row(row, outcome)) => {
                    let Some(at) = rows.iter().position(|asked| *asked == row) else {
                        return Err(format!("it told of {row}, which wasn't asked"));
                    };
                    let asked = rows.remove(at);
                    board.note(round, side, place, asked, &outcome);
                }
                Next::Ended(Ok(())) if rows.is_empty() => return Ok(()),
                Next::Ended(Ok(())) => return Err("it ended before this row".to_owned()),
                Next::Ended(Err(how)) => return Err(how),
                Next::Silent => return Err(format!("nothing was heard for {:?}", self.silence)),
            }
        }
    }

    fn orders(&self, side: &Side, rows: &[&'static str]) -> String {
        let order = |row: &&'static str| format!("{row}={}", size(side, row, self.extent));
        rows.iter().map(order).collect::<Vec<_>>().join(" ")
    }

    /// The row whose server is killed.
    async fn recovery(
        &self,
        board: &mut Board,
        round: usize,
        side: &'static Side,
        program: &Program,
    ) -> Result<(), Failure> {
        const ROW: &str = "recovery";
        let ground = Ground::start_lasting(side.store).await?;
        let (variable, url) = ground.variable();
        let n = size(side, ROW, self.extent);
        let orders = format!("{ROW}={n}");
        let outcome = match Play::start(program, side, (variable, &url), &orders, self.silence) {
            Ok(play) => {
                // A rival's stragglers may take minutes; they are awaited once, in a full run.
                let to_the_end = side.ours || (self.extent == Extent::Full && round == 0);
                killed(&ground, play, n, to_the_end).await
            }
            Err(failure) => Outcome::Failed(failure.to_string()),
        };
        board.note(round, side, Place::Killed, ROW, &outcome);
        Ok(())
    }
}

/// Kills the server once a quarter of the jobs was served, and looks what follows.
async fn killed(ground: &Ground, mut play: Play, n: usize, to_the_end: bool) -> Outcome {
    let fail = |what: &str| Outcome::Failed(what.to_owned());
    let mut served = 0;
    let mut accepted = None;
    let mut recovery_ms = None;
    loop {
        let next = match play.next().await {
            Ok(next) => next,
            Err(failure) => return fail(&failure.to_string()),
        };
        match next {
            Next::Line(Line::Versions(_)) => {}
            Next::Line(Line::Served(at)) => {
                served += 1;
                if let (Some(accepted), None) = (accepted, recovery_ms) {
                    recovery_ms = waited_ms(accepted, at);
                    if recovery_ms.is_some() && !to_the_end {
                        play.end().await;
                        return with(Fields::new(), recovery_ms);
                    }
                }
                if accepted.is_none() && served * 4 >= n {
                    match ground.kill_and_start().await {
                        Ok(at) => accepted = Some(at),
                        Err(failure) => return fail(&failure.to_string()),
                    }
                }
            }
            Next::Line(Line::Row(_, Outcome::Measured(fields))) => {
                return with(fields, recovery_ms);
            }
            Next::Line(Line::Row(_, other)) => return other,
            Next::Ended(Ok(())) => return fail("it ended without a word on the row"),
            Next::Ended(Err(how)) => return Outcome::Failed(how),
            Next::Silent if recovery_ms.is_some() => {
                return fail("it recovered, and then nothing was heard of its last jobs");
            }
            Next::Silent => return fail("no job was served after the server was back"),
        }
    }
}

/// The time from accepting to a start; a start from before says nothing.
fn waited_ms(accepted_us: u64, served_us: u64) -> Option<f64> {
    let waited = served_us.checked_sub(accepted_us)?;
    Some(Duration::from_micros(waited).as_secs_f64() * 1e3)
}

fn with(mut fields: Fields, recovery_ms: Option<f64>) -> Outcome {
    match recovery_ms {
        Some(ms) => {
            fields.insert("recovery_ms".to_owned(), json!(ms));
            Outcome::Measured(fields)
        }
        None => Outcome::Failed("all jobs were served before the server was back".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_from_before_the_server_was_back_says_nothing() {
        assert_eq!(waited_ms(5_000, 4_999), None);
        assert_eq!(waited_ms(5_000, 7_500), Some(2.5));
    }
}
