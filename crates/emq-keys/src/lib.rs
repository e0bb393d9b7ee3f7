//! emq-keys
