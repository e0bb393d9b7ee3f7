//! emq-scripts
