//! Rows in an SQLite file.
