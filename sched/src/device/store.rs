//! What is kept with a device between two uses of it, by rooms above this one.

use std::any::Any;

use streamweir_base::sync::Mutex;

/// Values of any types, each held by nobody. They go before the device ends.
#[derive(Default)]
pub(crate) struct Store(Mutex<Vec<Box<dyn Any + Send>>>);

impl Store {
    /// The value of this type that was put here last, among those that fit.
    pub(crate) fn take<T: Any + Send>(&self, fits: impl Fn(&T) -> bool) -> Option<Box<T>> {
        let mut all = self.0.lock();
        let fits = |value: &Box<dyn Any + Send>| value.downcast_ref().is_some_and(&fits);
        let found = all.iter().rposition(fits)?;
        all.remove(found).downcast().ok()
    }

    pub(crate) fn put<T: Any + Send>(&self, value: Box<T>) {
        self.0.lock().push(value);
    }
}
