//! The one integration binary: the layers, the tree's habits, and real processes under every kind of bad luck.

mod layering;
mod supervisor;
mod tree;
