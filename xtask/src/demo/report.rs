//! The table at the end, and the line of proof under it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use comfy_table::{Table, presets};
use emq_core::Queue;
use emq_keys::BrandedId;

use super::ledger::Ledger;
use crate::books::{Audit, Books, Fill, audit, booked};
use crate::{Failure, Outcome};

/// The orders that the audit shows.
const NEWEST: usize = 5;

/// Where every admitted job ended, and whether the books say the same.
#[derive(Default)]
pub(super) struct Account {
    completed: usize,
    dead: usize,
    /// In no store and in no set: the server lost them.
    lost: usize,
    /// Dead jobs by their last error.
    errors: BTreeMap<String, usize>,
    /// The books, against what the feed adds up to without the dead and the lost.
    audit: Audit,
}

impl Account {
    /// Looks every admitted job up: in the morgue, else in the books, else it is lost.
    pub(super) async fn close(
        queue: &Queue,
        admitted: &HashMap<BrandedId, Fill>,
        books: &Books,
    ) -> Result<Self, Failure> {
        let morgue: HashMap<BrandedId, String> = queue
            .morgue()
            .browse(admitted.len().max(1))
            .await?
            .into_iter()
            .map(|record| (record.id, record.last_error.unwrap_or_default()))
            .collect();
        let booked = booked(books).await?;
        let mut landed = HashMap::new();
        let mut account = Self::default();
        for (id, fill) in admitted {
            match morgue.get(id) {
                Some(error) => {
                    account.dead += 1;
                    *account.errors.entry(error.clone()).or_default() += 1;
                }
                None if booked.contains(id) => {
                    account.completed += 1;
                    landed.insert(*id, fill.clone());
                }
                None => account.lost += 1,
            }
        }
        account.audit = audit(books, &landed, NEWEST).await?;
        Ok(account)
    }
}

pub(super) struct Report {
    pub(super) lines: usize,
    pub(super) bad: usize,
    pub(super) duplicates: usize,
    pub(super) admitted: usize,
    /// How often each owner was restarted.
    pub(super) owners: Vec<(String, u64)>,
    /// How often the server was.
    pub(super) restarts: u32,
    /// What keeps the books.
    pub(super) store: &'static str,
    pub(super) work_took: Duration,
    pub(super) account: Account,
}

impl Report {
    pub(super) fn print(&self, ledger: &Ledger) {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["", "jobs", ""]);
        let mut row = |name: &str, count: u64, words: String| {
            table.add_row([name.to_owned(), count.to_string(), words]);
        };
        let rate = self.account.completed as f64 / self.work_took.as_secs_f64().max(0.001);
        row("admitted", self.admitted as u64, format!("of {} lines", self.lines));
        row("duplicates", self.duplicates as u64, "the same name again: nothing written".into());
        row("bad lines", self.bad as u64, "reported and skipped".into());
        row("completed", self.account.completed as u64, format!("{rate:.0}/s"));
        let (failed, panicked) = ledger.failures();
        row(
            "retried",
            failed.saturating_sub(self.account.dead as u64),
            format!("{panicked} attempts panicked, no worker died of it"),
        );
        row("dead", self.account.dead as u64, "in the morgue, by last error:".into());
        for (error, count) in &self.account.errors {
            row("", *count as u64, error.clone());
        }
        let recovered = ledger.recovered() as u64;
        row("recovered", recovered, "their worker was killed: back when its lease ended".into());
        row(
            "repeated",
            ledger.declined() as u64,
            "deliveries declined: their effect was there".into(),
        );
        let (stores, workers): (Vec<_>, Vec<_>) =
            self.owners.iter().partition(|(name, _)| !name.starts_with("worker"));
        let restarts = |owners: &[&(String, u64)]| owners.iter().map(|(_, n)| n).sum::<u64>();
        row(
            "restarted",
            restarts(&workers),
            format!("workers, by their tree; {} of the stores", restarts(&stores)),
        );
        if self.restarts > 0 {
            row(
                "lost",
                self.account.lost as u64,
                "by the server, with what it had not kept".into(),
            );
        }
        println!("{table}");
        let [waits, runs] = ledger.percentiles();
        for (name, values) in [("queued", waits), ("ran", runs)] {
            if let Some(values) = values {
                let [p50, p90, p99, max] = values.map(|us| us as f64 / 1000.0);
                println!(
                    "{name:>8}: p50 {p50:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms, max {max:.1} ms"
                );
            }
        }
    }

    /// The audit: what the books say against what the feed adds up to.
    pub(super) fn print_audit(&self) {
        let Audit { orders, positions, names, newest, faults } = &self.account.audit;
        println!(
            "audit ({}): {positions} positions and {orders} orders against the feed's own sums, {names} fills remembered by name, {} faults",
            self.store,
            faults.len()
        );
        println!("the newest orders, by name alone:");
        for (id, order) in newest {
            let name = |id: Option<BrandedId>| id.map_or("nobody".into(), |id| id.to_string());
            println!(
                "  {id} of {}: {:>5} filled, last at {:.2}, written by {}",
                name(order.portfolio),
                order.filled,
                order.price as f64 / 100.0,
                name(order.job)
            );
        }
    }

    /// The last line. Fails when a job is missing that the server had promised to keep, or when
    /// the books don't say what the feed adds up to.
    pub(super) fn prove(&self, may_lose: bool) -> Outcome {
        let Account { completed, dead, lost, .. } = self.account;
        let lines_add_up = self.lines == self.admitted + self.duplicates + self.bad;
        let jobs_add_up = self.admitted == completed + dead + lost;
        let books = self.account.audit.verdict();
        println!(
            "{} lines = {} admitted + {} duplicates + {} bad; {} admitted = {completed} completed + {dead} dead + {lost} lost; {}",
            self.lines,
            self.admitted,
            self.duplicates,
            self.bad,
            self.admitted,
            match (books.is_ok(), lost) {
                (true, 0) => "every job accounted for, none twice",
                (true, _) => "the server lost jobs, none of the rest twice",
                (false, _) => "the books do NOT add up",
            }
        );
        books?;
        match (lines_add_up && jobs_add_up, lost) {
            (false, _) => Err("the account does not add up".into()),
            (true, 0) => Ok(()),
            (true, _) if may_lose => Ok(()),
            (true, lost) => Err(format!("{lost} jobs are lost").into()),
        }
    }
}
