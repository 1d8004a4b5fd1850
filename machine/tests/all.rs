//! All tests of this crate are one program, so that what they share is compiled once.

#[macro_use]
mod common;

mod above;
mod afresh;
mod beneath;
mod borders;
mod changes;
mod conditions;
mod corners;
mod early;
mod edges;
mod facts;
mod forgotten;
mod left;
mod less;
mod marked;
mod meant;
mod order;
mod recorded;
mod refinement;
mod repeat;
mod returned;
mod rules;
mod stages;
mod switches;
mod tlbi;
mod traces;
mod unlinked;
mod unmapped;
mod unset;
mod visible;
mod walks;
mod ways;
mod written;
