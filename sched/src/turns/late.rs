//! What is made only when somebody asks for it, and whether anybody has asked.

use streamweir_base::sync::Mutex;
use streamweir_base::sync::atomic::{AtomicBool, Ordering};

use super::ranks;

/// The event of a launch, recorded when it is asked for.
///
/// A replay has to know whether the event was recorded before it: then the event
/// does not stand for it. It launches first and looks then, without a lock. What it
/// looks at is set before the event is recorded. So when it finds nothing, the event
/// was not recorded before the launch: both are calls on one stream, which the driver
/// puts in an order, and had the record been the earlier one, all that its thread did
/// before it would be seen after the launch.
#[derive(Debug)]
pub struct Late<E> {
    asked: AtomicBool,
    made: Mutex<Option<E>>,
}

impl<E: Clone> Late<E> {
    /// Nobody has asked.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            asked: AtomicBool::new(false),
            made: Mutex::ranked(ranks::EVENT, None),
        }
    }

    /// Whether somebody has asked, or is about to be answered.
    #[inline]
    pub fn is_asked_for(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// What was made, if somebody has asked.
    pub fn made(&self) -> Option<E> {
        self.made.lock().clone()
    }

    /// What `make` makes, the first time.
    ///
    /// # Errors
    /// What `make` returns; the next who asks makes it.
    pub fn get<X>(&self, make: impl FnOnce() -> Result<E, X>) -> Result<E, X> {
        let mut made = self.made.lock();
        if let Some(made) = &*made {
            return Ok(made.clone());
        }
        self.asked.store(true, Ordering::Release);
        let new = make()?;
        *made = Some(new.clone());
        Ok(new)
    }
}
