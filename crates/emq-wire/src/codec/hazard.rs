//! Commands that may not travel on a connection that many callers share.
//!
//! A shared connection stays useful only while nobody parks it, nobody changes what it is, and
//! each command is answered by exactly one reply. A command that breaks one of the three is
//! refused before a byte of it is written. Nothing is refused for what it does to the *server*:
//! that is what access lists are for.

use crate::error::WireError;

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hazard {
    /// It parks the connection (`BLPOP`, `WAIT`, ...): everybody behind it would wait too.
    Blocks(&'static str),
    /// It changes what the connection is (`SELECT`, `CLIENT TRACKING`, ...) for all callers.
    Rewires(&'static str),
    /// It is answered by no reply or by several (`CLIENT REPLY`, `SUBSCRIBE`, ...): every later
    /// caller would get somebody else's.
    Misaligns(&'static str),
    /// It opens or closes a transaction outside a pipeline that holds the whole of it: the
    /// commands of other callers would fall into it.
    Transaction(&'static str),
}

impl Hazard {
    /// The error that the caller gets, with what to use instead.
    pub(crate) fn refusal(self) -> WireError {
        let (command, instead) = match self {
            Self::Blocks(command @ ("WAIT" | "WAITAOF")) => {
                (command, "use a DurableLane: it speaks only of the writes of its own connection")
            }
            Self::Blocks(command) => (command, "use a BlockingLane"),
            Self::Rewires(command @ ("AUTH" | "HELLO" | "SELECT")) => {
                (command, "say it in the configuration")
            }
            Self::Rewires(command) => (command, "it would change the connection of every caller"),
            Self::Misaligns(command) => (command, "it isn't answered by exactly one reply"),
            Self::Transaction(command) => {
                (command, "send the whole transaction, MULTI to EXEC, as one pipeline")
            }
        };
        WireError::NotShareable { command, instead }
    }
}

/// What is known of a command's hazard while its arguments are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// Nothing that follows can change the verdict.
    Settled(Option<Hazard>),
    /// The next argument is a subcommand that decides.
    Subcommand(&'static [(&'static str, Hazard)]),
    /// A stream read: it blocks when `BLOCK` stands among its options.
    Options {
        /// The command.
        name: &'static str,
        /// Arguments that belong to the option before them.
        skip: u8,
    },
}

impl Scan {
    /// The verdict on a command's name alone; names are compared without case.
    pub(super) fn start(name: &str) -> Self {
        let Some(first) = name.bytes().next() else { return Self::Settled(None) };
        // A shift for a byte that is no letter finds no bit, or one whose name then differs.
        let letter = u32::from(first.to_ascii_uppercase()) & 31;
        let known = FIRST_LETTERS.get(name.len()).is_some_and(|letters| letters >> letter & 1 == 1);
        if !known {
            return Self::Settled(None);
        }
        let found = COMMANDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(Self::Settled(None), |(_, scan)| *scan)
    }

    /// Takes one more argument into account.
    #[inline]
    pub(super) fn see(&mut self, argument: &[u8]) {
        match self {
            Self::Settled(_) => {}
            Self::Subcommand(table) => {
                let is = |known: &str| argument.eq_ignore_ascii_case(known.as_bytes());
                let found = table.iter().find(|(known, _)| is(known));
                *self = Self::Settled(found.map(|(_, hazard)| *hazard));
            }
            Self::Options { skip: skip @ 1.., .. } => *skip -= 1,
            Self::Options { name, skip } => {
                let is = |known: &str| argument.eq_ignore_ascii_case(known.as_bytes());
                if is("BLOCK") {
                    *self = Self::Settled(Some(Hazard::Blocks(name)));
                } else if is("STREAMS") {
                    *self = Self::Settled(None);
                } else if is("COUNT") {
                    *skip = 1;
                } else if is("GROUP") {
                    *skip = 2;
                }
            }
        }
    }

    /// The verdict on the command as it stands.
    pub(super) fn verdict(self) -> Option<Hazard> {
        match self {
            Self::Settled(hazard) => hazard,
            Self::Subcommand(_) | Self::Options { .. } => None,
        }
    }
}

const fn blocks(name: &'static str) -> (&'static str, Scan) {
    (name, Scan::Settled(Some(Hazard::Blocks(name))))
}

const fn rewires(name: &'static str) -> (&'static str, Scan) {
    (name, Scan::Settled(Some(Hazard::Rewires(name))))
}

const fn misaligns(name: &'static str) -> (&'static str, Scan) {
    (name, Scan::Settled(Some(Hazard::Misaligns(name))))
}

const fn transaction(name: &'static str) -> (&'static str, Scan) {
    (name, Scan::Settled(Some(Hazard::Transaction(name))))
}

const fn stream_read(name: &'static str) -> (&'static str, Scan) {
    (name, Scan::Options { name, skip: 0 })
}

const COMMANDS: &[(&str, Scan)] = &[
    blocks("BLPOP"),
    blocks("BRPOP"),
    blocks("BLMOVE"),
    blocks("BRPOPLPUSH"),
    blocks("BLMPOP"),
    blocks("BZPOPMIN"),
    blocks("BZPOPMAX"),
    blocks("BZMPOP"),
    blocks("WAIT"),
    blocks("WAITAOF"),
    stream_read("XREAD"),
    stream_read("XREADGROUP"),
    rewires("AUTH"),
    rewires("HELLO"),
    rewires("SELECT"),
    rewires("RESET"),
    rewires("ASKING"),
    rewires("READONLY"),
    rewires("READWRITE"),
    rewires("QUIT"),
    misaligns("MONITOR"),
    misaligns("SUBSCRIBE"),
    misaligns("PSUBSCRIBE"),
    misaligns("SSUBSCRIBE"),
    misaligns("UNSUBSCRIBE"),
    misaligns("PUNSUBSCRIBE"),
    misaligns("SUNSUBSCRIBE"),
    misaligns("SYNC"),
    misaligns("PSYNC"),
    misaligns("REPLCONF"),
    transaction("MULTI"),
    transaction("EXEC"),
    transaction("DISCARD"),
    transaction("WATCH"),
    ("CLIENT", Scan::Subcommand(CLIENT)),
    ("SCRIPT", Scan::Subcommand(SCRIPT)),
];

/// By the length of a name, the first letters that names of the table have: one look keeps nearly
/// all commands off the table.
const FIRST_LETTERS: [u32; 16] = {
    let mut letters = [0; 16];
    let mut at = 0;
    while at < COMMANDS.len() {
        let name = COMMANDS[at].0.as_bytes();
        letters[name.len()] |= 1 << (name[0] & 31);
        at += 1;
    }
    letters
};

const CLIENT: &[(&str, Hazard)] = &[
    ("REPLY", Hazard::Misaligns("CLIENT REPLY")),
    ("TRACKING", Hazard::Rewires("CLIENT TRACKING")),
    ("CACHING", Hazard::Rewires("CLIENT CACHING")),
    ("NO-TOUCH", Hazard::Rewires("CLIENT NO-TOUCH")),
    ("NO-EVICT", Hazard::Rewires("CLIENT NO-EVICT")),
    ("CAPA", Hazard::Rewires("CLIENT CAPA")),
    ("IMPORT-SOURCE", Hazard::Rewires("CLIENT IMPORT-SOURCE")),
];

const SCRIPT: &[(&str, Hazard)] = &[("DEBUG", Hazard::Rewires("SCRIPT DEBUG"))];

/// A transaction as a pipeline goes through it. Only one that closes what it opened may travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Transaction {
    #[default]
    Outside,
    /// Keys are watched.
    Watching,
    /// Commands are queued by the server until `EXEC`.
    Queueing,
}

impl Transaction {
    /// Takes one more command into account: what it was refused for before, and whether this
    /// pipeline makes it harmless.
    pub(super) fn see(&mut self, hazard: Hazard) -> Option<Hazard> {
        let Hazard::Transaction(name) = hazard else { return Some(hazard) };
        *self = match (*self, name) {
            (Self::Outside | Self::Watching, "WATCH") => Self::Watching,
            (Self::Outside | Self::Watching, "MULTI") => Self::Queueing,
            (Self::Queueing, "EXEC" | "DISCARD") => Self::Outside,
            _ => return Some(hazard),
        };
        None
    }

    /// What is left open at the end of a pipeline.
    pub(super) fn end(self) -> Option<Hazard> {
        match self {
            Self::Outside => None,
            Self::Watching => Some(Hazard::Transaction("WATCH")),
            Self::Queueing => Some(Hazard::Transaction("MULTI")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cmd, Pipeline};
    use super::*;

    fn verdict(line: &str) -> Option<Hazard> {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        words.fold(Cmd::new(name), Cmd::arg).hazard()
    }

    fn pipelined(lines: &[&str]) -> Option<Hazard> {
        let cmds = lines.iter().map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            words.fold(Cmd::new(name), Cmd::arg)
        });
        cmds.collect::<Pipeline>().encode().hazard
    }

    #[test]
    fn every_name_of_the_table_is_found_in_any_case() {
        for (name, scan) in COMMANDS {
            assert_eq!(Scan::start(name), *scan, "{name}");
            assert_eq!(Scan::start(&name.to_lowercase()), *scan, "{name}");
        }
    }

    #[test]
    fn ordinary_commands_pass() {
        for line in [
            "GET k",
            "SET k v",
            "EVALSHA x 0",
            "ZADD k 1 m",
            "HSET k BLOCK 1",
            "PING",
            "PUBLISH c m",
            "SCRIPT LOAD x",
            "SCRIPT FLUSH",
            "SCRIPT EXISTS x",
            "CLIENT ID",
            "CLIENT UNBLOCK 5",
            "CLIENT KILL ID 5",
            "CLIENT PAUSE 10",
            "CLIENT SETNAME x",
            "CLIENT LIST",
            "CLIENT",
            "UNWATCH",
            "UNLINK k",
            "RPUSH l v",
            "SADD s m",
            "WAITING",
            "",
            "MGET a b",
            "XADD s * f v",
            "CLUSTER KEYSLOT x",
            "ACL WHOAMI",
            "BITCOUNT k",
        ] {
            assert_eq!(verdict(line), None, "{line}");
        }
    }

    #[test]
    fn subcommands_decide() {
        for (line, hazard) in [
            ("CLIENT REPLY OFF", Hazard::Misaligns("CLIENT REPLY")),
            ("client reply skip", Hazard::Misaligns("CLIENT REPLY")),
            ("CLIENT TRACKING ON", Hazard::Rewires("CLIENT TRACKING")),
            ("CLIENT no-touch on", Hazard::Rewires("CLIENT NO-TOUCH")),
            ("script debug yes", Hazard::Rewires("SCRIPT DEBUG")),
        ] {
            assert_eq!(verdict(line), Some(hazard), "{line}");
        }
        assert_eq!(verdict("CLIENT SETNAME REPLY"), None);
    }

    #[test]
    fn stream_reads_block_only_with_the_option() {
        for (line, blocks) in [
            ("XREAD BLOCK 0 STREAMS s $", true),
            ("xread count 1 block 5 streams s 0", true),
            ("XREAD COUNT 1 STREAMS s 0", false),
            ("XREAD STREAMS block 0", false),
            ("XREADGROUP GROUP g c BLOCK 1 STREAMS s >", true),
            ("XREADGROUP BLOCK 1 GROUP g c STREAMS s >", true),
            ("XREADGROUP GROUP block streams COUNT 1 NOACK STREAMS s >", false),
            ("XREADGROUP GROUP block streams COUNT 1 BLOCK 9 STREAMS s >", true),
        ] {
            assert_eq!(matches!(verdict(line), Some(Hazard::Blocks(_))), blocks, "{line}");
        }
    }

    #[test]
    fn a_transaction_travels_only_whole() {
        for name in ["MULTI", "EXEC", "DISCARD", "WATCH"] {
            assert_eq!(verdict(name), Some(Hazard::Transaction(name)));
        }
        for whole in [
            &["MULTI", "SET a 1", "EXEC"][..],
            &["multi", "SET a 1", "discard"],
            &["WATCH a", "WATCH b", "MULTI", "INCR a", "EXEC", "GET a"],
            &["MULTI", "EXEC", "MULTI", "EXEC"],
        ] {
            assert_eq!(pipelined(whole), None, "{whole:?}");
        }
        for (part, name) in [
            (&["MULTI", "SET a 1"][..], "MULTI"),
            (&["SET a 1", "EXEC"], "EXEC"),
            (&["MULTI", "MULTI", "EXEC"], "MULTI"),
            (&["WATCH a", "GET a"], "WATCH"),
            (&["MULTI", "WATCH a", "EXEC"], "WATCH"),
            (&["MULTI", "EXEC", "DISCARD"], "DISCARD"),
        ] {
            assert_eq!(pipelined(part), Some(Hazard::Transaction(name)), "{part:?}");
        }
    }

    #[test]
    fn a_hazard_inside_a_pipeline_is_found_wherever_it_stands() {
        let hazard = Some(Hazard::Blocks("BLPOP"));
        assert_eq!(pipelined(&["GET a", "BLPOP l 1", "GET b"]), hazard);
        assert_eq!(pipelined(&["MULTI", "BLPOP l 1", "EXEC"]), hazard);
        assert_eq!(pipelined(&["GET a", "GET b"]), None);
    }

    #[test]
    fn refusals_say_what_to_use() {
        for (hazard, words) in [
            (Hazard::Blocks("BLPOP"), "BlockingLane"),
            (Hazard::Blocks("WAITAOF"), "DurableLane"),
            (Hazard::Rewires("SELECT"), "configuration"),
            (Hazard::Misaligns("MONITOR"), "one reply"),
            (Hazard::Transaction("EXEC"), "one pipeline"),
        ] {
            let message = hazard.refusal().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
