//! Keeps track of the open pages of a job. A runner ends only after they have shown how the job ended: a page that misses
//! the end would keep the figures of the second before, and report a lost connection.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use words::lock::{Mutex, MutexGuard};

/// Most pages that a runner waits for.
const PAGES: usize = 256;

/// A page asks again after the time that it names, or at most this much later.
const LATE: Duration = Duration::from_millis(1500);

/// The longest time between two requests of a page: a page in a hidden tab sends fewer.
const SLOWEST: Duration = Duration::from_secs(5);

/// The open pages, by the number that each has drawn for itself.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    pages: Mutex<BTreeMap<u64, OpenPage>>,
}

#[derive(Debug)]
struct OpenPage {
    /// It is closed if it has not asked again by then.
    due: Instant,
    has_seen_the_end: bool,
}

impl Audience {
    /// No wait for pages is longer than this.
    pub(crate) const LIMIT: Duration = SLOWEST.saturating_add(LATE);

    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, OpenPage>> {
        self.pages.lock()
    }

    /// A page has asked for what is new, and will ask again after this time.
    pub(crate) fn asked(&self, page: u64, again: Duration, now: Instant) {
        let due = now + again.min(SLOWEST) + LATE;
        let mut pages = self.pages();
        if let Some(known) = pages.get_mut(&page) {
            known.due = due;
            return;
        }
        pages.retain(|_, page| now < page.due);
        if pages.len() < PAGES {
            let page_now = OpenPage {
                due,
                has_seen_the_end: false,
            };
            pages.insert(page, page_now);
        }
    }

    /// A page shows how the job ended.
    pub(crate) fn seen(&self, page: u64) {
        if let Some(page) = self.pages().get_mut(&page) {
            page.has_seen_the_end = true;
        }
    }

    /// Whether an open page still has to show how the job ended.
    pub(crate) fn is_waiting(&self, now: Instant) -> bool {
        let pages = self.pages();
        let mut open = pages.values();
        open.any(|page| !page.has_seen_the_end && now < page.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_page_is_waited_for_until_it_has_seen_the_end_or_is_closed() {
        let (audience, begun) = (Audience::default(), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        assert!(!audience.is_waiting(begun), "nobody looks");
        let second = Duration::from_secs(1);
        audience.asked(1, second, at(0));
        audience.asked(2, second, at(500));
        assert!(audience.is_waiting(at(600)));
        audience.seen(1);
        assert!(
            audience.is_waiting(at(700)),
            "the other one has not seen it"
        );
        audience.seen(2);
        assert!(!audience.is_waiting(at(800)));
        audience.asked(1, second, at(900));
        assert!(!audience.is_waiting(at(1000)), "it knows");
        audience.asked(3, second, at(1000));
        assert!(audience.is_waiting(at(3000)));
        assert!(!audience.is_waiting(at(4000)), "it was closed");
    }

    #[test]
    fn no_page_is_waited_for_longer_than_the_limit() {
        let (audience, now) = (Audience::default(), Instant::now());
        audience.asked(1, Duration::from_secs(1_000_000), now);
        assert!(!audience.is_waiting(now + Audience::LIMIT));
        for page in 0..10_000 {
            audience.asked(page, Duration::from_secs(1), now);
        }
        assert!(audience.pages().len() <= PAGES);
    }
}
