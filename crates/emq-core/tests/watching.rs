//! What a watcher reads: its truth, and its price on a large queue.

mod ground;

use std::collections::HashSet;
use std::time::Duration;

use emq_core::{Failure, NewJob, Queue, SweptLanes};
use emq_keys::BrandedId;
use emq_testkit::Valkey;
use ground::raw::tenant;
use ground::{LONG, admit, admitted, bus_on, commands, shared};

/// One job in each of many lanes.
async fn fill_lanes(queue: &Queue, lanes: std::ops::Range<usize>) -> Vec<BrandedId> {
    let lanes: Vec<BrandedId> = lanes.map(|n| tenant(&n.to_string())).collect();
    let mut list = Vec::new();
    for lane in &lanes {
        list.push(NewJob::new(queue.bus().mint_job().await.unwrap(), "x").lane(*lane));
    }
    assert_eq!(queue.enqueue_many(&list).await.unwrap().len(), lanes.len());
    lanes
}

/// Goes through a whole sweep; answers what it saw and in how many steps.
async fn sweep(queue: &Queue, lanes_a_step: usize) -> (SweptLanes, usize) {
    let mut sweep = queue.sweep_lanes();
    for steps in 1.. {
        let seen = sweep.step(lanes_a_step).await.unwrap();
        if seen.whole {
            return (seen, steps);
        }
    }
    unreachable!()
}

#[tokio::test]
async fn vitals_tell_each_state_and_the_instants_that_come_next() {
    let (_bus, queue) = shared().await;
    assert!(queue.vitals().await.unwrap().is_empty());

    let dead = admit(&queue, "dead").await;
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    assert_eq!(lease.id(), dead);
    lease.retry(&Failure::new("no").dead()).await.unwrap();
    let _held = admit(&queue, "held").await;
    let _lease = queue.claim(LONG).await.unwrap().unwrap();
    let oldest = admit(&queue, "first").await;
    admit(&queue, "second").await;
    admitted(queue.enqueue_in("later", Duration::from_secs(300)).await);
    let lane = queue.lane(tenant("a"));
    admitted(lane.enqueue("in a lane").await);
    lane.limit(3).await.unwrap();
    queue.lane(tenant("b")).pause().await.unwrap();
    queue.pause().await.unwrap();

    let vitals = queue.vitals().await.unwrap();
    assert_eq!((vitals.pending, vitals.active, vitals.scheduled, vitals.dead), (2, 1, 1, 1));
    assert_eq!((vitals.lanes_ready, vitals.lanes_paused, vitals.lanes_limited), (1, 1, 1));
    assert_eq!((vitals.paused, vitals.lanes_leased), (true, 0));
    assert_eq!(vitals.oldest, Some(oldest));
    let due_in = vitals.due_ms.unwrap() - vitals.server_ms;
    assert!((200_000..=300_000).contains(&due_in), "{due_in}");
    let ends_in = vitals.lease_ends_ms.unwrap() - vitals.server_ms;
    assert!((500_000..=600_000).contains(&ends_in), "{ends_in}");
}

#[tokio::test]
async fn vitals_cost_the_same_thirteen_reads_whatever_the_queue() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    fill_lanes(&queue, 0..1_000).await;
    let before = commands(&valkey);
    queue.vitals().await.unwrap();
    // The count itself is one more.
    assert_eq!(commands(&valkey) - before - 1, 13);
}

#[tokio::test]
async fn a_sweep_adds_up_all_lanes_once_in_steps_of_a_bounded_price() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let lanes = fill_lanes(&queue, 0..1_300).await;
    let first = queue.lane(lanes[0]).browse(1).await.unwrap()[0];
    queue.lane(lanes[7]).pause().await.unwrap();
    admitted(queue.lane(lanes[9]).enqueue("one more").await);

    let mut sweep = queue.sweep_lanes();
    let before = commands(&valkey);
    let seen = sweep.step(100).await.unwrap();
    assert_eq!((seen.lanes, seen.whole), (100, false));
    // Two reads a lane, and the names.
    assert!(commands(&valkey) - before <= 203, "{}", commands(&valkey) - before);

    let (seen, steps) = self::sweep(&queue, 100).await;
    assert_eq!((seen.lanes, seen.waiting), (1_300, 1_301));
    assert_eq!(seen.oldest, Some(first));
    assert_eq!(steps, 14);
}

#[tokio::test]
async fn a_sweep_goes_round_again_and_sees_what_changed() {
    let (_bus, queue) = shared().await;
    let mut sweep = queue.sweep_lanes();
    assert_eq!(sweep.step(10).await.unwrap().waiting, 0);
    assert!(sweep.reading().whole);
    fill_lanes(&queue, 0..5).await;
    assert_eq!(sweep.step(10).await.unwrap().waiting, 5);
    // The next sweep is under way, and the reading is the last whole one.
    let under_way = sweep.step(3).await.unwrap();
    assert_eq!((under_way.waiting, under_way.whole), (5, true));
    for _ in 0..5 {
        queue.claim_lane(LONG).await.unwrap().unwrap().complete().await.unwrap();
    }
    sweep.step(10).await.unwrap();
    assert_eq!(sweep.step(10).await.unwrap().waiting, 0);
}

#[tokio::test]
async fn names_of_lanes_come_without_their_facts_each_once() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let lanes = fill_lanes(&queue, 0..1_200).await;
    let before = commands(&valkey);
    let (mut listing, mut all) = (queue.lanes(), Vec::new());
    loop {
        let ids = listing.ids(70).await.unwrap();
        assert!(ids.len() <= 70);
        match ids.is_empty() {
            true => break,
            false => all.extend(ids),
        }
    }
    assert!(commands(&valkey) - before < 20);
    assert_eq!(all.len(), 1_200);
    assert_eq!(all.iter().collect::<HashSet<_>>(), lanes.iter().collect());

    let some = queue.lane_statuses(&all[..3]).await.unwrap();
    assert_eq!(some.iter().map(|lane| lane.id).collect::<Vec<_>>(), all[..3]);
    assert!(some.iter().all(|lane| lane.depth == 1));
    assert!(queue.lane_statuses(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_morgue_is_read_on_from_any_dead_letter() {
    let (_bus, queue) = shared().await;
    let mut dead = Vec::new();
    for n in 0..7 {
        dead.push(admit(&queue, n.to_string()).await);
        let lease = queue.claim(LONG).await.unwrap().unwrap();
        lease.retry(&Failure::new("no").dead()).await.unwrap();
    }
    dead.reverse();
    let morgue = queue.morgue();
    let mut read = Vec::new();
    loop {
        let page = morgue.page(read.last().copied(), 3).await.unwrap();
        match page.is_empty() {
            true => break,
            false => read.extend(page),
        }
    }
    assert_eq!(read, dead);
    // One that left the morgue is as good a mark as one that lies in it.
    morgue.requeue(dead[2]).await.unwrap();
    assert_eq!(morgue.page(Some(dead[2]), 2).await.unwrap(), dead[3..5]);
}

#[tokio::test]
async fn the_servers_time_is_an_answer_and_a_loss_is_an_error() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let time = bus.server_time().await.unwrap();
    let vitals = queue.vitals().await.unwrap();
    let ms = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!((ms..ms + 600_000).contains(&vitals.server_ms));
    assert!(bus.is_connected());
    valkey.kill9().unwrap();
    assert!(bus.server_time().await.is_err());
    assert!(queue.vitals().await.is_err());
    assert!(queue.sweep_lanes().step(1).await.is_err());
    assert!(!bus.is_connected());
}
