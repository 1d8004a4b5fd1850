//! Work on many things at once, and its results in their order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Threads that work.
const WORKERS: usize = 2;

/// What `work` makes of each item; `tell` hears of each result as it comes.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    tell: impl Fn(&T, &R) + Sync,
) -> impl Iterator<Item = R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let take = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        items.get(number).map(|item| (number, item))
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((number, item)) = take() {
                    let result = work(item);
                    tell(item, &result);
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(number, result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values()
}
