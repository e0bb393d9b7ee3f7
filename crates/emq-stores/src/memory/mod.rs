//! Rows in memory, behind one owner task.
