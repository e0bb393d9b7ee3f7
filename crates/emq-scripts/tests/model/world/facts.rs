//! The world as the keyspace holds it, by keyspace.md.

use std::collections::{BTreeMap, BTreeSet};

use emq_keys::BrandedId;

use super::{Row, State, World};
use crate::model::snapshot::{Content, Snapshot};

impl State {
    /// The row's word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Scheduled => "scheduled",
            Self::Dead => "dead",
        }
    }
}

impl Row {
    fn fields(&self) -> BTreeMap<String, Vec<u8>> {
        let text = |value: &Option<String>| value.clone().map(String::into_bytes);
        let word = |value: Option<&str>| value.map(|value| value.as_bytes().to_vec());
        let number = |value: u64| value.to_string().into_bytes();
        let some_number = |value: u64| (value > 0).then(|| number(value));
        let options = &self.options;
        let fields = [
            ("state", word(Some(self.state.word()))),
            ("attempts", Some(number(self.attempts))),
            ("payload", Some(self.payload.clone())),
            ("group", word(self.group.as_ref().map(BrandedId::as_str))),
            ("holder", text(&self.holder)),
            ("lost", some_number(self.lost)),
            ("forgiven", some_number(self.forgiven)),
            ("last_error", text(&self.last_error)),
            ("checkpoint", self.checkpoint.clone()),
            ("kind", word(options.kind)),
            ("headers", word(options.headers)),
            ("max_attempts", options.max_attempts.map(|cap| number(cap.into()))),
            ("unique", text(&options.unique)),
            ("cancel", self.cancel.then(|| b"1".to_vec())),
        ];
        let given = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
        given.map(|(field, value)| (field.to_owned(), value)).collect()
    }
}

impl World {
    /// The keys that a queue in this state has.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.put("pending", unscored(&self.pending));
        snapshot.put("active", scored(&self.active));
        snapshot.put("schedule", scored(&self.schedule));
        snapshot.put("dead", unscored(&self.dead));
        for (id, row) in &self.rows {
            snapshot.put(&format!("job:{id}"), Content::Hash(row.fields()));
        }
        for (group, lane) in &self.lanes {
            snapshot.put(&format!("g:{group}:pending"), unscored(&lane.waiting));
        }
        snapshot.put("ring", Content::List(self.ring.iter().map(name).collect()));
        let parked = self.lanes.iter().filter(|(_, lane)| lane.parked);
        snapshot.put("paused", Content::Set(parked.map(|(group, _)| name(group)).collect()));
        let of_lanes = |fact: fn(&super::Lane) -> Option<u64>| {
            let facts = self.lanes.iter().filter_map(|(group, lane)| Some((group, fact(lane)?)));
            hash(facts.map(|(group, fact)| (name(group), fact.to_string())))
        };
        snapshot.put("glimit", of_lanes(|lane| lane.ceiling.map(u64::from)));
        snapshot.put("gweight", of_lanes(|lane| lane.weight.map(u64::from)));
        // A lane with no lease out has no field.
        snapshot.put("gactive", of_lanes(|lane| (lane.leases > 0).then_some(lane.leases)));
        snapshot.put("wake", Content::List(vec!["1".to_owned(); self.wake]));
        let owned = self.unique.iter().map(|(key, id)| (key.clone(), name(id)));
        snapshot.put("unique", hash(owned));
        let paused = self.paused.then(|| "1".to_owned());
        // None and 0 say the same: the flat set is due.
        let left = self.left.filter(|left| *left > 0).map(|left| left.to_string());
        let spent = self.spent.map(|(group, share)| format!("{group}|{share}"));
        let meta = [("paused", paused), ("left", left), ("spent", spent)];
        let meta = meta.into_iter().filter_map(|(fact, value)| Some((fact.to_owned(), value?)));
        snapshot.put("meta", hash(meta));
        snapshot
    }
}

fn name(id: &BrandedId) -> String {
    id.to_string()
}

fn unscored(ids: &BTreeSet<BrandedId>) -> Content {
    Content::Zset(ids.iter().map(|id| (name(id), 0)).collect())
}

fn scored(ids: &BTreeMap<BrandedId, u64>) -> Content {
    Content::Zset(ids.iter().map(|(id, score)| (name(id), *score)).collect())
}

fn hash(fields: impl Iterator<Item = (String, String)>) -> Content {
    Content::Hash(fields.map(|(field, value)| (field, value.into_bytes())).collect())
}
