//! The settle table of the bundle's specification, cell by cell: every way of settling, by where
//! the job is, with the right and the wrong token and ticket, flat and in a lane.

mod support;

#[path = "settle_table/cells.rs"]
mod cells;
#[path = "settle_table/world.rs"]
mod world;

use cells::{Auth, Cell, Lane, Place, Verb};
use emq_scripts::Fenced;
use emq_testkit::Valkey;
use support::{fenced, queue};
use world::World;

/// Runs one cell: plants the world, settles, and compares reply and world with what must be.
async fn run(fenced: &Fenced, cell: &Cell) {
    let keys = queue("table");
    let before = World::of(cell);
    before.plant(fenced.connection(), &keys).await;
    let (expected_reply, mut expected) = cell.expect(&before);

    let earliest_ms = support::server_ms(fenced.connection()).await;
    let reply = cell.settle(fenced, &keys).await;
    let latest_ms = support::server_ms(fenced.connection()).await;

    assert_eq!(reply, expected_reply, "{cell:?}");
    let after = World::read(fenced.connection(), &keys).await;
    after.match_times(&mut expected, earliest_ms..=latest_ms);
    assert_eq!(after, expected, "{cell:?}");
    after.assert_ring_holds_exactly_the_serviceable_lanes();
    support::checkup::healthy_once_nudged(fenced, &keys).await;
}

async fn run_all(place: Place) {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut cells = 0;
    for verb in Verb::ALL {
        for auth in Auth::ALL {
            for ticketed in [false, true] {
                for lane in Lane::ALL {
                    run(&fenced, &Cell { place, verb, auth, ticketed, lane }).await;
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, Verb::ALL.len() * Auth::ALL.len() * 2 * Lane::ALL.len());
}

#[tokio::test]
async fn active() {
    run_all(Place::Active).await;
}

#[tokio::test]
async fn active_but_expired() {
    run_all(Place::Expired).await;
}

#[tokio::test]
async fn pending_after_a_reap() {
    run_all(Place::PendingReaped).await;
}

#[tokio::test]
async fn dead_after_a_reap_at_the_cap() {
    run_all(Place::DeadReaped).await;
}

#[tokio::test]
async fn scheduled() {
    run_all(Place::Scheduled).await;
}

#[tokio::test]
async fn no_row() {
    run_all(Place::NoRow).await;
}
