//! The desk's books, as the rung, the demo and the drills keep them: the orders that were filled,
//! and the positions that the fills add up to.

mod audit;
mod shelf;

use std::sync::Arc;

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::{Absorbed, Cx, Store, StoreError};
use serde::{Deserialize, Serialize};

pub(crate) use self::audit::{Audit, audit, booked};
pub(crate) use self::shelf::{Backing, Place, Shelf};

pub(crate) const ORDER: Namespace = namespace!("ORD");
pub(crate) const PORTFOLIO: Namespace = namespace!("PRT");

/// What a job carries: two ids and two numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fill {
    /// The order that was filled.
    pub(crate) order: BrandedId,
    /// The portfolio that owns it.
    pub(crate) portfolio: BrandedId,
    /// Bought, or sold when negative.
    pub(crate) qty: i64,
    /// In cents.
    pub(crate) price: i64,
}

/// An order's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Whose it is.
    pub(crate) portfolio: Option<BrandedId>,
    /// How much of it is filled.
    pub(crate) filled: i64,
    /// The price of the last fill, in cents.
    pub(crate) price: i64,
    /// The job that wrote the row last.
    pub(crate) job: Option<BrandedId>,
}

/// A portfolio's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) qty: i64,
}

/// Both stores.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) orders: Store<Order>,
    pub(crate) positions: Store<Position>,
}

/// A fill in a handler's hands.
pub(crate) type FillJob = Cx<Fill, Books>;

impl Books {
    /// The first of a fill's two writes: the position takes it, under the job's name.
    pub(crate) async fn move_position(&self, cx: &FillJob) -> Result<Absorbed, StoreError> {
        let qty = cx.payload.qty;
        let take = move |position: &mut Position| {
            position.qty += qty;
            qty
        };
        cx.absorb(&self.positions, cx.payload.portfolio, take).await
    }

    /// The second: the order is filled, under the same name.
    pub(crate) async fn fill_order(&self, cx: &FillJob) -> Result<Absorbed, StoreError> {
        let (job, fill) = (cx.id(), cx.payload.clone());
        let take = move |order: &mut Order| {
            order.portfolio = Some(fill.portfolio);
            order.filled += fill.qty;
            order.price = fill.price;
            order.job = Some(job);
            fill.qty
        };
        cx.absorb(&self.orders, cx.payload.order, take).await
    }

    /// Both. Whether the position took it now.
    pub(crate) async fn book(&self, cx: &FillJob) -> Result<Absorbed, StoreError> {
        let absorbed = self.move_position(cx).await?;
        let _ = self.fill_order(cx).await?;
        Ok(absorbed)
    }
}

/// Books that a handler shares.
pub(crate) type SharedBooks = Arc<Books>;
