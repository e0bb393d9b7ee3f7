//! The sides: ours three times, and each rival at its defaults.

use emq_testkit::Fsync;

/// What a side works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A Valkey that keeps nothing.
    Volatile,
    /// A Valkey with an append-only file.
    AppendOnly(Fsync),
    /// PostgreSQL, which syncs what it commits.
    Postgres,
}

impl Store {
    /// How it keeps what it was told, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Store::Volatile => "Valkey, no persistence: kill -9 loses everything",
            Store::AppendOnly(Fsync::Always) => "Valkey, AOF, fsync before each reply",
            Store::AppendOnly(_) => "Valkey, AOF, fsync each second: kill -9 may lose the last one",
            Store::Postgres => "PostgreSQL, fsync and synchronous_commit on",
        }
    }
}

/// Rates by which a row's size is chosen, jobs a second: their order is what matters. They are of
/// another day and another build; nothing else is done with them but to predict a rival's band.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub(super) enqueue: [u32; 3],
    /// At a concurrency of 1, 10, 50 and 200.
    pub(super) process: [u32; 4],
    pub(super) lanes: u32,
    /// The largest backlog that its worker is known to bear.
    pub(super) backlog_at_most: usize,
}

const ANY_BACKLOG: usize = usize::MAX;

/// One side.
#[derive(Debug)]
pub struct Side {
    /// Its name in tables, and in `--rival`.
    pub name: &'static str,
    /// Which program plays it: several sides may share one.
    pub program: &'static str,
    /// What it works on.
    pub store: Store,
    /// Whether it is ours.
    pub ours: bool,
    /// Arguments of the program.
    pub args: &'static [&'static str],
    /// Variables of the program.
    pub env: &'static [(&'static str, &'static str)],
    /// The only rows that it is there for; empty for all.
    pub only: &'static [&'static str],
    /// The order of its rates.
    pub rates: Rates,
}

/// Our program's name.
pub const OURS: &str = "ours";

const fn ours(name: &'static str, store: Store, args: &'static [&'static str], r: Rates) -> Side {
    Side { name, program: OURS, store, ours: true, args, env: &[], only: &[], rates: r }
}

const fn rival(name: &'static str, store: Store, rates: Rates) -> Side {
    Side { name, program: name, store, ours: false, args: &[], env: &[], only: &[], rates }
}

const fn rates(enqueue: [u32; 3], process: [u32; 4], lanes: u32) -> Rates {
    Rates { enqueue, process, lanes, backlog_at_most: ANY_BACKLOG }
}

/// All sides, ours first.
pub const SIDES: &[Side] = &[
    ours(
        "ours",
        Store::Volatile,
        &[],
        rates([14_000, 90_000, 180_000], [11_000, 60_000, 80_000, 90_000], 45_000),
    ),
    ours(
        "ours-everysec",
        Store::AppendOnly(Fsync::EverySec),
        &[],
        rates([13_000, 70_000, 150_000], [10_000, 50_000, 70_000, 80_000], 40_000),
    ),
    ours(
        "ours-always",
        Store::AppendOnly(Fsync::Always),
        &["--durable"],
        rates([2_500, 25_000, 80_000], [3_500, 20_000, 45_000, 60_000], 25_000),
    ),
    rival(
        "bullmq",
        Store::Volatile,
        rates([6_100, 35_000, 25_900], [3_800, 17_700, 18_700, 18_700], 18_000),
    ),
    rival(
        "bullmq-official",
        Store::Volatile,
        rates([7_600, 54_200, 40_200], [6_200, 20_900, 22_600, 22_600], 20_000),
    ),
    rival(
        "groupmq",
        Store::Volatile,
        rates([6_100, 37_900, 37_900], [4_400, 23_300, 25_000, 25_000], 25_000),
    ),
    rival(
        "apalis-redis",
        Store::Volatile,
        Rates {
            backlog_at_most: 7_000,
            ..rates([8_300, 86_000, 107_000], [9_100, 9_300, 13_100, 13_100], 13_000)
        },
    ),
    rival(
        "chasquimq",
        Store::Volatile,
        rates([11_400, 109_000, 169_000], [6_600, 29_200, 45_000, 45_000], 45_000),
    ),
    Side {
        name: "chasquimq-tuned",
        program: "chasquimq",
        env: &[("RIVAL_TUNED", "1")],
        only: &["process_c50"],
        ..rival(
            "chasquimq-tuned",
            Store::Volatile,
            rates([11_400, 109_000, 169_000], [6_600, 80_000, 193_000, 193_000], 193_000),
        )
    },
    rival(
        "graphile-worker",
        Store::Postgres,
        rates([800, 1_300, 36_000], [400, 1_500, 3_000, 3_000], 3_000),
    ),
    rival("oban", Store::Postgres, rates([980, 2_500, 19_500], [110, 910, 2_900, 2_900], 2_900)),
];

impl Side {
    /// The side of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Side> {
        SIDES.iter().find(|side| side.name == name)
    }
}
