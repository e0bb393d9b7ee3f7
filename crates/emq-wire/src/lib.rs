//! emq-wire
