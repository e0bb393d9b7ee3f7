//! What EchoMQ's speed is measured with. Every target is a ratio taken in one run, the two sides
//! in turn; an absolute rate says something of one machine at one moment.

pub mod referee;
