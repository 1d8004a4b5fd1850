//! Whether the order of two steps of different CPUs can matter. A wrong "no" loses interleavings, a wrong "yes" costs time:
//! only what is certain is called independent.

use machine::barrier::Barrier;
use machine::event::Event;

use crate::request::{Look, Request};

/// Whether steps `one` and `other` of different CPUs lead to the same state in either order, and see the same.
pub(super) fn are_independent(one: &Request, other: &Request) -> bool {
    match (one, other) {
        // What is loaded others store without a step of their own.
        (Request::Look(Look { is_load: true, .. }), _) | (_, Request::Look(Look { is_load: true, .. })) => false,
        (one, other) if is_read(one) && is_read(other) => true,
        (Request::Load(word), event) | (event, Request::Load(word)) => {
            written(event).is_some_and(|it| it != Some(*word))
        }
        // An ISB synchronizes its own CPU alone.
        (Request::Event(Event::Barrier(Barrier::Isb)), Request::Event(Event::Barrier(Barrier::Isb))) => true,
        (Request::Event(Event::Barrier(Barrier::Isb)), Request::Access { .. } | Request::Look(_))
        | (Request::Access { .. } | Request::Look(_), Request::Event(Event::Barrier(Barrier::Isb))) => true,
        _ => false,
    }
}

const fn is_read(request: &Request) -> bool {
    matches!(request, Request::Load(_) | Request::Access { .. } | Request::Look(_))
}

/// The word that a step writes, if that is certain: `None` means unknown, `Some(None)` means no word at all.
fn written(request: &Request) -> Option<Option<u64>> {
    match request {
        Request::Event(Event::Store { address, .. } | Event::CompareExchange { address, .. }) => Some(Some(*address)),
        Request::Event(Event::Barrier(_) | Event::Tlbi { .. }) => Some(None),
        _ => None,
    }
}
