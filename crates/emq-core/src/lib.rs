//! emq-core
