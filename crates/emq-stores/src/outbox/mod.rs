//! Jobs that exist if and only if the business row does.
