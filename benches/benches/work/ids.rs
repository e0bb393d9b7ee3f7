//! What is done with ids and keys for one job.

use emq_keys::{BrandedId, Key, Minter, Namespace, NodeId, QueueKeys, QueueName, namespace, slot};

pub const ID: &[u8] = b"JOB0NgWEfAEJfs";
pub const KEY: &[u8] = b"emq:{orders}:job:JOB0NgWEfAEJfs";
pub const NAME: &[u8] = b"acme-corp";
/// A fixed time, so that each run mints the same ids.
const UNIX_MS: u64 = 1_769_526_697_641;

pub fn minter() -> Minter {
    Minter::new(NodeId::new(7).expect("a node"))
}

pub fn keys() -> QueueKeys {
    QueueKeys::new(QueueName::new("orders").expect("a name"))
}

pub fn parse(id: &[u8]) -> BrandedId {
    BrandedId::parse(id).expect("an id")
}

pub fn mint(minter: &Minter) -> BrandedId {
    minter.mint_at(Namespace::JOB, UNIX_MS).expect("an id")
}

pub fn mint_hundred(minter: &Minter) -> Vec<BrandedId> {
    minter.mint_many_at(Namespace::JOB, 100, UNIX_MS).expect("a block").collect()
}

pub fn derive(name: &[u8]) -> BrandedId {
    BrandedId::derive(namespace!("TEN"), name).expect("an id")
}

pub fn slot_of(key: &[u8]) -> u16 {
    slot(key)
}

pub fn parse_key(key: &[u8]) -> Key {
    Key::parse(key).expect("a key")
}

pub fn job_key(keys: &QueueKeys, id: &BrandedId) -> String {
    keys.job(id)
}
