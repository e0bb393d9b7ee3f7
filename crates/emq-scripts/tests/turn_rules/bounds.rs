//! What a turn costs doesn't grow with the number of lanes; and it runs on a full server.

use std::fmt::Write;

use emq_keys::QueueKeys;
use emq_scripts::{Enqueue, Fenced, SettleOutcome, SettleVerdict, Turn};
use emq_testkit::Valkey;

use super::queue::{OPTIONS, Queue, TURN};
use crate::support::{ask, fenced, job, lane, queue};

/// Lanes with jobs in each, planted by the server itself.
async fn plant(fenced: &Fenced, keys: &QueueKeys, lanes: u64, jobs: u64) {
    let mut names = Vec::new();
    for n in 0..lanes {
        names.push(lane(n).to_string());
    }
    for n in 0..lanes * jobs {
        names.push(job(n).to_string());
    }
    let script = "local lanes, base = tonumber(ARGV[1]), ARGV[2] \
        for i = lanes + 3, #ARGV do \
          local id, group = ARGV[i], ARGV[3 + i % lanes] \
          redis.call('ZADD', base .. 'g:' .. group .. ':pending', '0', id) \
          redis.call('HSET', base .. 'job:' .. id, 'state', 'pending', 'attempts', '0', \
            'payload', 'p', 'group', group) \
        end \
        for i = 3, lanes + 2 do redis.call('RPUSH', base .. 'ring', ARGV[i]) end";
    let lanes = lanes.to_string();
    let mut words = vec!["EVAL", script, "0", &lanes, keys.base()];
    words.extend(names.iter().map(String::as_str));
    ask(fenced.connection(), &words).await;
}

/// How often the server ran which command.
async fn commands(fenced: &Fenced) -> String {
    let info = ask(fenced.connection(), &["INFO", "commandstats"]).await;
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    let mut counts = String::new();
    for line in info.lines().filter(|line| line.starts_with("cmdstat_")) {
        let (name, rest) = line.split_once(':').unwrap();
        let calls = rest.split(',').next().unwrap();
        if !["cmdstat_info", "cmdstat_config|resetstat"].contains(&name) {
            writeln!(counts, "{name} {calls}").unwrap();
        }
    }
    counts
}

#[tokio::test]
async fn the_same_commands_at_two_hundred_lanes_and_at_five_thousand() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut counts = Vec::new();
    for (lanes, jobs) in [(200, 25), (5_000, 2)] {
        let keys = queue(&format!("lanes.{lanes}"));
        plant(&fenced, &keys, lanes, jobs).await;
        ask(fenced.connection(), &["CONFIG", "RESETSTAT"]).await;
        let call = Turn { claim: 100, promote: 200, reap: 200, ..TURN };
        let turned = fenced.call(&keys, &call).await.unwrap();
        let groups: std::collections::BTreeSet<_> =
            turned.jobs.iter().map(|job| job.group).collect();
        assert_eq!((turned.jobs.len(), groups.len()), (100, 100));
        counts.push(commands(&fenced).await);
        let ring = ask(fenced.connection(), &["LLEN", keys.ring()]).await;
        assert_eq!(ring.as_int(), Some(lanes as i64));
    }
    assert_eq!(counts[0], counts[1]);
}

/// Settles, moves and claims go on where no admission is taken, with a warm cache and a cold one.
#[tokio::test]
async fn a_full_server_is_drained_by_turns() {
    let valkey = Valkey::start().unwrap();
    let queue = Queue { fenced: fenced(&valkey).await, keys: queue("orders") };
    queue.admit_all(0, 20, None).await;
    queue.admit_all(100, 20, Some(0)).await;
    queue.limit(0, 7).await;
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let more = Enqueue { id: job(50), payload: b"p", options: OPTIONS, durable: false };
    assert!(queue.fenced.call(&queue.keys, &more).await.is_err());
    let mut held = Vec::new();
    let mut done = 0;
    for round in 0.. {
        if round % 2 == 0 {
            valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
        }
        let settles: Vec<_> = held
            .iter()
            .enumerate()
            .map(|(n, held): (usize, &super::queue::InHand)| match n % 5 {
                0 if held.job.token == 1 => held.settle(SettleOutcome::Release),
                1 if held.job.token == 1 => held.settle(super::queue::AGAIN),
                _ => held.settle(SettleOutcome::Complete),
            })
            .collect();
        let turn = Turn { claim: 9, promote: 200, reap: 200, settles: &settles, ..TURN };
        let turned = queue.turn(turn).await;
        for (settle, verdict) in settles.iter().zip(&turned.verdicts) {
            let again = matches!(settle.outcome, SettleOutcome::Retry { .. });
            let wanted = if again { SettleVerdict::Scheduled } else { SettleVerdict::Done };
            assert_eq!(*verdict, wanted);
            done += usize::from(settle.outcome == SettleOutcome::Complete);
        }
        held = turned.jobs.into_iter().map(|job| super::queue::InHand { job }).collect();
        if held.is_empty() {
            break;
        }
    }
    assert_eq!(done, 40);
    let rows = queue.ask("KEYS", "*", &[]).await;
    let left: Vec<_> = rows.as_array().unwrap().iter().map(|key| key.as_bytes().unwrap()).collect();
    // The ceiling, the tokens, and the rotation's own state.
    assert!(left.len() <= 3, "{left:?}");
}
