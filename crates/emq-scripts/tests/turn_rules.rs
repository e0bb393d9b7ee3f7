//! The rules of a turn, one by one: the rotation over lanes and flat set, ceilings, the order of
//! its parts, what wakes whom, how long until the next, torn pasts, malformed runs, a full server, keys of
//! another type.

mod support;

#[path = "turn_rules/bounds.rs"]
mod bounds;
#[path = "turn_rules/fairness.rs"]
mod fairness;
#[path = "turn_rules/lanes.rs"]
mod lanes;
#[path = "turn_rules/next.rs"]
mod next;
#[path = "turn_rules/order.rs"]
mod order;
#[path = "turn_rules/queue.rs"]
mod queue;
#[path = "turn_rules/runs.rs"]
mod runs;
#[path = "turn_rules/torn.rs"]
mod torn;
#[path = "turn_rules/types.rs"]
mod types;
#[path = "turn_rules/wakes.rs"]
mod wakes;
