//! The tables of the stores, and the statements on them.
//!
//! * `emq_rows`: a row for each id. The id begins with its kind, so there is no column for that:
//!   a kind is a range of ids. Collation "C" orders ids by their bytes, as everything else does.
//!   `body` is `bytea` and not `jsonb`: a row comes back byte for byte, also where JSON would
//!   allow more than `jsonb` keeps (NUL, order, large numbers). To look into it by hand:
//!   `convert_from(body, 'UTF8')::jsonb`. A `body` that is null is a row that isn't there yet.
//! * `revision`: one more with each change of the row, or of the names that it remembers.
//! * `emq_names`: the names that a row remembers. A step is `bytea`, because it may hold a character
//!   that the database's own encoding hasn't got.
//! * `emq_horizons`: the horizon of a kind.

use super::migrate::Tables;

pub(super) const STORES: Tables = Tables {
    name: "stores",
    steps: &["
        CREATE TABLE emq_rows (
            id text COLLATE \"C\" PRIMARY KEY,
            body bytea,
            revision bigint NOT NULL DEFAULT 0,
            folded bigint NOT NULL DEFAULT 0
        );
        CREATE TABLE emq_names (
            id text COLLATE \"C\" NOT NULL,
            job text COLLATE \"C\" NOT NULL,
            step bytea NOT NULL,
            contribution bytea NOT NULL,
            PRIMARY KEY (id, job, step)
        );
        CREATE TABLE emq_horizons (
            kind text COLLATE \"C\" PRIMARY KEY,
            horizon text COLLATE \"C\" NOT NULL
        );
    "],
};

pub(super) const GET: &str = "SELECT body FROM emq_rows WHERE id = $1 AND body IS NOT NULL";

pub(super) const PUT: &str = "INSERT INTO emq_rows (id, body) VALUES ($1, $2) \
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, revision = emq_rows.revision + 1";

pub(super) const PAGE_DESC: &str = "SELECT id, body FROM emq_rows \
    WHERE id >= $1 AND id < $2 AND body IS NOT NULL ORDER BY id DESC LIMIT $3";

pub(super) const WINDOW: &str = "SELECT id, body FROM emq_rows \
    WHERE id >= $1 AND id < $2 AND body IS NOT NULL ORDER BY id LIMIT $3";

pub(super) const ABSORBED: &str = "SELECT job, step, contribution FROM emq_names \
    WHERE id = $1 AND (job, step) > ($2, $3) ORDER BY job, step LIMIT $4";

pub(super) const FOLDED: &str = "SELECT folded FROM emq_rows WHERE id = $1";

pub(super) const HORIZON: &str = "SELECT horizon FROM emq_horizons WHERE kind = $1";

/// Locks the row, and answers what decides: see `guard.rs`.
pub(super) const LOOK: &str = "SELECT locked.body, locked.revision, \
    (SELECT seen.revision FROM emq_rows seen WHERE seen.id = $1), \
    EXISTS (SELECT 1 FROM emq_names WHERE id = $1 AND job = $2 AND step = $3), \
    (SELECT horizon FROM emq_horizons WHERE kind = $4) \
    FROM emq_rows locked WHERE locked.id = $1 FOR NO KEY UPDATE OF locked";

/// Something to lock where there is no row.
pub(super) const RESERVE: &str =
    "INSERT INTO emq_rows (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";

pub(super) const UNRESERVE: &str = "DELETE FROM emq_rows WHERE id = $1 AND body IS NULL";

/// The name and the effect, or neither.
pub(super) const WRITE: &str = "WITH named AS ( \
        INSERT INTO emq_names (id, job, step, contribution) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (id, job, step) DO NOTHING RETURNING 1 \
    ) \
    UPDATE emq_rows SET body = $5, revision = revision + 1 \
    WHERE id = $1 AND EXISTS (SELECT 1 FROM named)";

/// Moves the horizon, never back, and answers where it is.
pub(super) const MOVE_HORIZON: &str = "INSERT INTO emq_horizons (kind, horizon) VALUES ($1, $2) \
    ON CONFLICT (kind) DO UPDATE \
    SET horizon = GREATEST(emq_horizons.horizon, excluded.horizon) RETURNING horizon";

/// The next rows that remember a job before the horizon.
pub(super) const TO_FOLD: &str = "SELECT DISTINCT id FROM emq_names \
    WHERE id > $1 AND id < $2 AND job < $3 ORDER BY id LIMIT $4";

pub(super) const LOCK_ROW: &str = "SELECT 1 FROM emq_rows WHERE id = $1 FOR NO KEY UPDATE";

/// The oldest names before the horizon, at most so many.
pub(super) const FOLD: &str = "WITH gone AS ( \
        DELETE FROM emq_names WHERE id = $1 AND (job, step) IN ( \
            SELECT job, step FROM emq_names WHERE id = $1 AND job < $2 \
            ORDER BY job, step LIMIT $3 \
        ) RETURNING 1 \
    ) \
    UPDATE emq_rows SET folded = folded + (SELECT count(*) FROM gone), revision = revision + 1 \
    WHERE id = $1 AND EXISTS (SELECT 1 FROM gone) RETURNING (SELECT count(*) FROM gone)";
