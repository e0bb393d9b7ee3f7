//! emq-testkit
