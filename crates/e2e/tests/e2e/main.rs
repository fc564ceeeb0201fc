//! The one integration binary: the layers, the tree's habits, and real processes under every kind of bad luck.

mod crashes;
mod dev;
mod distrust;
mod layering;
mod main_job;
mod supervisor;
mod tree;
mod wire;
