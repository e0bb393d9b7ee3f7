//! What a typed call is.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_wire::{Cmd, Reply, Script};

use crate::contract::{Contract, ContractKey};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::CallError;

/// One call of one script on one queue.
///
/// [`crate::Fenced::call`] makes it on the shared connection. The two halves are open for callers
/// who send the command over a lane of their own, a [`emq_wire::DurableLane`] for instance.
pub trait ScriptCall {
    /// What the script answers.
    type Reply;

    /// The script's keys, arguments, replies and refusals.
    const CONTRACT: Contract;

    /// The script itself.
    const SCRIPT: ScriptName = Self::CONTRACT.script;

    /// The command, in wire form. `script` is the bundle's own of [`Contract::script`].
    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd;

    /// Reads a reply that is no error; `None` for a shape that the script can't have answered.
    fn read(&self, reply: &Reply) -> Option<Self::Reply>;

    /// Reads any reply. Total: an unexpected shape is an error, never a panic.
    ///
    /// # Errors
    /// The script's refusal or the server's error by class; [`CallError::Shape`] for a reply that
    /// the script can't have answered.
    fn decode(&self, reply: Reply) -> Result<Self::Reply, CallError> {
        let script = Self::SCRIPT;
        match reply {
            Reply::Error(error) => Err(CallError::from_server(script, error)),
            reply => self
                .read(&reply)
                .ok_or_else(|| CallError::Shape { script, found: read::describe(&reply) }),
        }
    }
}

/// Starts the command of a call: its keys, and the queue's base where the script takes it.
/// `args_bytes` is a guess of what the arguments will take.
pub(crate) fn begin(
    contract: &Contract,
    script: &Script,
    keys: &QueueKeys,
    args_bytes: usize,
) -> Cmd {
    // The longest type has 8 bytes; framing takes up to 8 more.
    let key_bytes = keys.base().len() + 16;
    let capacity = key_bytes * (contract.keys.len() + 1) + args_bytes;
    let mut cmd = script.call(contract.keys.len(), capacity);
    for key in contract.keys {
        match key {
            ContractKey::Queue(fact) => cmd.push(keys.fact(*fact)),
            ContractKey::Reserve(key) => cmd.push(key),
        }
    }
    if contract.args.first() == Some(&"base") {
        cmd.push(keys.base());
    }
    cmd
}

/// A number of the caller's as an argument. What doesn't fit is far over every script's bound, so
/// the script refuses it as it would refuse the number itself.
pub(crate) fn push_u64(cmd: &mut Cmd, value: u64) {
    cmd.push_int(i64::try_from(value).unwrap_or(i64::MAX));
}

/// A duration in milliseconds, rounded up: a lease is never shorter than asked.
pub(crate) fn push_ms(cmd: &mut Cmd, duration: Duration) {
    push_u64(cmd, whole_ms(duration));
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// `1` or `0`.
pub(crate) fn push_flag(cmd: &mut Cmd, flag: bool) {
    cmd.push(if flag { "1" } else { "0" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_and_saturate() {
        assert_eq!(whole_ms(Duration::ZERO), 0);
        assert_eq!(whole_ms(Duration::from_nanos(1)), 1);
        assert_eq!(whole_ms(Duration::from_millis(7)), 7);
        assert_eq!(whole_ms(Duration::from_micros(7_001)), 8);
        assert_eq!(whole_ms(Duration::MAX), u64::MAX);
    }
}
