//! The statements. Those that write are run inside a transaction of the caller's.

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::fault::foreign;
use crate::compaction::{COMPACT_STEP, Progress};
use crate::effect::{Absorbed, Contribution, JobName, Written};
use crate::error::StoreError;

/// The rows of one kind, over a connection.
pub(super) struct Table<'c> {
    pub(super) connection: &'c Connection,
    pub(super) kind: Namespace,
}

/// What an absorb must know before it writes.
const LOOK: &str = "
    SELECT (SELECT body FROM emq_rows WHERE kind = :kind AND id = :id),
           EXISTS (SELECT 1 FROM emq_names
                   WHERE kind = :kind AND id = :id AND job = :job AND step = :step),
           (SELECT horizon FROM emq_horizons WHERE kind = :kind)";

const PUT: &str = "
    INSERT INTO emq_rows (kind, id, body) VALUES (:kind, :id, :body)
    ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body";

const REMEMBER: &str = "
    INSERT INTO emq_names (kind, id, job, step, contribution)
    VALUES (:kind, :id, :job, :step, :contribution)";

const PAGE: &str = "
    SELECT id, body FROM emq_rows WHERE kind = :kind AND id < :before ORDER BY id DESC LIMIT :limit";

const WINDOW: &str = "
    SELECT id, body FROM emq_rows WHERE kind = :kind AND id >= :lo AND id < :hi
    ORDER BY id LIMIT :limit";

const ABSORBED: &str = "
    SELECT job, step, contribution FROM emq_names
    WHERE kind = :kind AND id = :id AND (job, step) > (:job, :step) ORDER BY job, step LIMIT :limit";

const MOVE_HORIZON: &str = "
    INSERT INTO emq_horizons (kind, horizon) VALUES (:kind, :horizon)
    ON CONFLICT (kind) DO UPDATE SET horizon = max(horizon, excluded.horizon)
    RETURNING horizon";

/// The first name of a row that is beyond what one step may forget.
const STEP_END: &str = "
    SELECT job, step FROM emq_names WHERE kind = :kind AND id = :id AND job < :horizon
    ORDER BY job, step LIMIT 1 OFFSET :budget";

const FORGET: &str = "
    DELETE FROM emq_names WHERE kind = :kind AND id = :id AND (job, step) < (:job, :step)";

impl Table<'_> {
    fn kind(&self) -> &str {
        self.kind.as_str()
    }

    pub(super) fn row(&self, id: BrandedId) -> Result<Option<Bytes>, StoreError> {
        let find = "SELECT body FROM emq_rows WHERE kind = ?1 AND id = ?2";
        let mut find = self.connection.prepare_cached(find)?;
        let body = find.query_row((self.kind(), id.as_str()), |row| row.get::<_, Vec<u8>>(0));
        Ok(body.optional()?.map(Bytes::from))
    }

    pub(super) fn put(&self, id: BrandedId, body: &[u8]) -> Result<(), StoreError> {
        let mut put = self.connection.prepare_cached(PUT)?;
        put.execute(named_params! { ":kind": self.kind(), ":id": id.as_str(), ":body": body })?;
        Ok(())
    }

    pub(super) fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Result<Vec<(BrandedId, Bytes)>, StoreError> {
        // Behind every id of the kind.
        let before = before.map_or_else(|| "~".to_owned(), |id| id.to_string());
        let mut page = self.connection.prepare_cached(PAGE)?;
        let rows = page.query_map(
            named_params! { ":kind": self.kind(), ":before": before, ":limit": signed(limit) },
            row_of,
        )?;
        rows.map(|row| gated(row?)).collect()
    }

    pub(super) fn window(
        &self,
        lo: BrandedId,
        hi: BrandedId,
        limit: usize,
    ) -> Result<Vec<(BrandedId, Bytes)>, StoreError> {
        let mut window = self.connection.prepare_cached(WINDOW)?;
        let rows = window.query_map(
            named_params! {
                ":kind": self.kind(), ":lo": lo.as_str(), ":hi": hi.as_str(),
                ":limit": signed(limit),
            },
            row_of,
        )?;
        rows.map(|row| gated(row?)).collect()
    }

    /// The guard. Its transaction is the only one that writes, so what it looked at stays true
    /// until it is committed. In particular the horizon: a compaction moves it in a transaction of
    /// its own and forgets names only afterwards. So either this one is committed before that, and
    /// its name is there to be forgotten, or it sees the new horizon and is refused; it can't apply
    /// a name that was forgotten meanwhile. (In a caller's transaction that began by reading, the
    /// first write fails as busy when another has written since.)
    pub(super) fn absorb(
        &self,
        id: BrandedId,
        name: &JobName,
        effect: impl FnOnce(Option<Bytes>) -> Result<Written, StoreError>,
    ) -> Result<Absorbed, StoreError> {
        let (kind, id_text) = (self.kind(), id.as_str());
        let (job, step) = (name.job(), name.step_name());
        let mut look = self.connection.prepare_cached(LOOK)?;
        let (body, is_known, horizon) = look.query_row(
            named_params! { ":kind": kind, ":id": id_text, ":job": job.as_str(), ":step": step },
            |row| {
                let body: Option<Vec<u8>> = row.get(0)?;
                Ok((body, row.get::<_, bool>(1)?, row.get::<_, Option<String>>(2)?))
            },
        )?;
        if is_known {
            return Ok(Absorbed::Declined);
        }
        if let Some(horizon) = horizon.as_deref().map(parse).transpose()?
            && job < horizon
        {
            return Err(StoreError::BeyondHorizon { job, horizon });
        }
        let written = effect(body.map(Bytes::from))?;
        self.put(id, &written.row)?;
        let mut remember = self.connection.prepare_cached(REMEMBER)?;
        remember.execute(named_params! {
            ":kind": kind, ":id": id_text, ":job": job.as_str(), ":step": step,
            ":contribution": &*written.contribution,
        })?;
        Ok(Absorbed::Applied)
    }

    pub(super) fn absorbed(
        &self,
        id: BrandedId,
        limit: usize,
        after: Option<&JobName>,
    ) -> Result<Vec<Contribution>, StoreError> {
        let after = after.map(|name| (name.job().to_string(), name.step_name()));
        // No job's id is empty, so all of them are behind it.
        let (job, step) = after.unwrap_or_default();
        let mut names = self.connection.prepare_cached(ABSORBED)?;
        let names = names.query_map(
            named_params! {
                ":kind": self.kind(), ":id": id.as_str(), ":job": job, ":step": step,
                ":limit": signed(limit),
            },
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?)),
        )?;
        let contribution = |(job, step, contribution): (String, String, Vec<u8>)| {
            let name = JobName::step(parse(&job)?, &step);
            Ok(Contribution { name, contribution: contribution.into() })
        };
        names.map(|name| contribution(name?)).collect()
    }

    pub(super) fn folded(&self, id: BrandedId) -> Result<u64, StoreError> {
        let find = "SELECT folded FROM emq_rows WHERE kind = ?1 AND id = ?2";
        let mut find = self.connection.prepare_cached(find)?;
        let folded = find.query_row((self.kind(), id.as_str()), |row| row.get::<_, i64>(0));
        Ok(folded.optional()?.map_or(0, i64::unsigned_abs))
    }

    pub(super) fn horizon(&self) -> Result<Option<BrandedId>, StoreError> {
        let find = "SELECT horizon FROM emq_horizons WHERE kind = ?1";
        let mut find = self.connection.prepare_cached(find)?;
        let horizon = find.query_row([self.kind()], |row| row.get::<_, String>(0)).optional()?;
        horizon.as_deref().map(parse).transpose()
    }

    /// The horizon never moves back. Answers where it is.
    pub(super) fn move_horizon(&self, to: BrandedId) -> Result<BrandedId, StoreError> {
        let mut moved = self.connection.prepare_cached(MOVE_HORIZON)?;
        let parameters = named_params! { ":kind": self.kind(), ":horizon": to.as_str() };
        let horizon = moved.query_row(parameters, |row| row.get::<_, String>(0))?;
        parse(&horizon)
    }

    /// One step of forgetting names of jobs before the horizon. Answers where to go on, and whether
    /// to.
    pub(super) fn forget(
        &self,
        horizon: BrandedId,
        from: Progress,
    ) -> Result<(Progress, bool), StoreError> {
        let next = "SELECT id FROM emq_names WHERE kind = ?1 AND id > ?2 ORDER BY id LIMIT 1";
        let mut next = self.connection.prepare_cached(next)?;
        let mut progress = from;
        let mut budget = COMPACT_STEP;
        // A step that ended in the middle of a row left names there, and the next one begins there.
        let mut row = from.row;
        loop {
            if let Some(id) = row {
                progress.at(id);
                let (names, all) = self.forget_of(id, horizon, budget)?;
                progress.forgot(names as u64);
                budget = budget.saturating_sub(names + 1);
                if !all || budget == 0 {
                    return Ok((progress, true));
                }
            }
            let after = row.map_or_else(String::new, |id| id.to_string());
            let found = next.query_row((self.kind(), after), |row| row.get::<_, String>(0));
            let Some(found) = found.optional()? else { return Ok((progress, false)) };
            row = Some(parse(&found)?);
        }
    }

    /// Forgets at most so many names of a row. Answers how many, and whether that was all.
    fn forget_of(
        &self,
        id: BrandedId,
        horizon: BrandedId,
        budget: usize,
    ) -> Result<(usize, bool), StoreError> {
        let (kind, id, horizon) = (self.kind(), id.as_str(), horizon.as_str());
        let mut end = self.connection.prepare_cached(STEP_END)?;
        let end = end.query_row(
            named_params! {
                ":kind": kind, ":id": id, ":horizon": horizon, ":budget": signed(budget),
            },
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        );
        let end = end.optional()?;
        let is_all = end.is_none();
        let (job, step) = end.unwrap_or_else(|| (horizon.to_owned(), String::new()));
        let mut forget = self.connection.prepare_cached(FORGET)?;
        let names = forget
            .execute(named_params! { ":kind": kind, ":id": id, ":job": job, ":step": step })?;
        if names > 0 {
            let fold = "UPDATE emq_rows SET folded = folded + ?3 WHERE kind = ?1 AND id = ?2";
            self.connection.prepare_cached(fold)?.execute((kind, id, signed(names)))?;
        }
        Ok((names, is_all))
    }
}

fn row_of(row: &Row<'_>) -> rusqlite::Result<(String, Vec<u8>)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn gated((id, body): (String, Vec<u8>)) -> Result<(BrandedId, Bytes), StoreError> {
    Ok((parse(&id)?, body.into()))
}

/// An id from our tables, into which a hand may have written.
fn parse(id: &str) -> Result<BrandedId, StoreError> {
    BrandedId::parse(id.as_bytes()).map_err(foreign)
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
