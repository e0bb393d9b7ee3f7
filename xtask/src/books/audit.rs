//! What the books must say, worked out from the fills alone, against what they say.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use emq_keys::BrandedId;
use emq_stores::Store;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Books, Fill, Order};
use crate::Failure;

/// Rows, and names, that are read at once.
const PAGE: usize = 500;
/// Faults that are told one by one.
const FAULTS_SHOWN: usize = 10;

/// What an audit saw.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) orders: usize,
    pub(crate) positions: usize,
    /// Names that the positions remember.
    pub(crate) names: usize,
    /// The newest orders, by name alone.
    pub(crate) newest: Vec<(BrandedId, Order)>,
    /// Where the books are wrong.
    pub(crate) faults: Vec<String>,
}

/// The sum of what a row shall hold, and the jobs that shall have written it.
#[derive(Default)]
struct Due {
    sum: i64,
    jobs: BTreeSet<BrandedId>,
}

/// Compares the books with the fills that must be in them, each once and nothing else.
pub(crate) async fn audit(
    books: &Books,
    fills: &HashMap<BrandedId, Fill>,
    newest: usize,
) -> Result<Audit, Failure> {
    let mut due_positions: BTreeMap<BrandedId, Due> = BTreeMap::new();
    let mut due_orders: BTreeMap<BrandedId, Due> = BTreeMap::new();
    for (job, fill) in fills {
        for due in [
            due_positions.entry(fill.portfolio).or_default(),
            due_orders.entry(fill.order).or_default(),
        ] {
            due.sum += fill.qty;
            due.jobs.insert(*job);
        }
    }
    let mut audit = Audit::default();
    let positions = rows(&books.positions).await?;
    let sums = positions.iter().map(|(id, row)| (*id, row.qty)).collect();
    audit.names = compare(&mut audit.faults, &books.positions, sums, due_positions).await?;
    audit.positions = positions.len();
    let orders = rows(&books.orders).await?;
    let sums = orders.iter().map(|(id, row)| (*id, row.filled)).collect();
    compare(&mut audit.faults, &books.orders, sums, due_orders).await?;
    audit.orders = orders.len();
    audit.newest = books.orders.page_desc(newest, None).await?;
    let by_name: Vec<&BrandedId> = orders.keys().rev().take(newest).collect();
    if !audit.newest.iter().map(|(id, _)| id).eq(by_name) {
        audit.faults.push("the newest orders are not paged by name".into());
    }
    Ok(audit)
}

/// The jobs that the positions have absorbed.
pub(crate) async fn booked(books: &Books) -> Result<BTreeSet<BrandedId>, Failure> {
    let mut all = BTreeSet::new();
    for id in rows(&books.positions).await?.into_keys() {
        all.append(&mut jobs(&books.positions, id).await?);
    }
    Ok(all)
}

impl Audit {
    /// Fails with the first faults.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let shown = self.faults.iter().take(FAULTS_SHOWN).cloned().collect::<Vec<_>>().join("; ");
        Err(format!("the audit found {} faults: {shown}", self.faults.len()).into())
    }
}

/// Every row of a store, by id.
async fn rows<R>(store: &Store<R>) -> Result<BTreeMap<BrandedId, R>, Failure>
where
    R: Serialize + DeserializeOwned + Send + 'static,
{
    let mut all = BTreeMap::new();
    let mut before = None;
    loop {
        let page = store.page_desc(PAGE, before).await?;
        let Some((last, _)) = page.last() else { return Ok(all) };
        before = Some(*last);
        all.extend(page);
    }
}

/// Notes each row whose sum or whose names aren't what is due; answers how many names there are.
async fn compare<R>(
    faults: &mut Vec<String>,
    store: &Store<R>,
    sums: BTreeMap<BrandedId, i64>,
    mut due: BTreeMap<BrandedId, Due>,
) -> Result<usize, Failure>
where
    R: Serialize + DeserializeOwned + Send + 'static,
{
    let mut names = 0;
    for (id, sum) in sums {
        let due = due.remove(&id).unwrap_or_default();
        if sum != due.sum {
            faults.push(format!("{id} holds {sum}, and its fills add up to {}", due.sum));
        }
        let absorbed = jobs(store, id).await?;
        names += absorbed.len();
        if absorbed != due.jobs {
            let lost = due.jobs.difference(&absorbed).count();
            let strange = absorbed.difference(&due.jobs).count();
            faults.push(format!("{id} lacks {lost} of its jobs and has {strange} of others"));
        }
    }
    faults.extend(due.keys().map(|id| format!("{id} has fills and no row")));
    Ok(names)
}

/// The jobs that a row remembers.
async fn jobs<R>(store: &Store<R>, id: BrandedId) -> Result<BTreeSet<BrandedId>, Failure>
where
    R: Serialize + DeserializeOwned + Send + 'static,
{
    let mut jobs = BTreeSet::new();
    let mut after = None;
    loop {
        let page = store.absorbed(id, PAGE, after).await?;
        let Some(last) = page.last() else { return Ok(jobs) };
        after = Some(last.name.clone());
        jobs.extend(page.iter().map(|contribution| contribution.name.job()));
    }
}
