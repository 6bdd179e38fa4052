//! Model to plan through small hand-made models.

mod build;
mod findings;
mod golden;
