//! A driver that fails the call it is told to fail.
//!
//! A test runs its program once to learn how many calls it makes, then once
//! more for each of them with that call failing, and asks each time whether
//! anything leaked and whether the next capture works.
//!
//! A failed call has not been made, with two exceptions that CUDA's behaviour
//! asks for: calls that destroy, free or unload are made and then reported as
//! failed, because nobody calls them twice; and a capture whose end fails is
//! over all the same, its graph destroyed.
//!
//! `capture_mode_exchange` is neither counted nor failed: it only sets a
//! variable of the calling thread, and a caller could do nothing about it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::wrap::{Duty, Wrap, forward_driver};
use crate::driver::{
    Driver, DriverError, DriverResult, DynDriver, ErrorClass, GraphHandle, StreamHandle,
};

/// Wraps a driver and fails one of its calls. See the [module](self).
#[derive(Debug)]
pub struct FaultDriver {
    inner: DynDriver,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    trace: Vec<&'static str>,
    fail: Option<(u64, ErrorClass)>,
    failed: Option<&'static str>,
}

impl FaultDriver {
    /// Wraps `inner`; no call fails until [`fail_call`](Self::fail_call).
    pub fn new(inner: DynDriver) -> Arc<Self> {
        Arc::new(Self {
            inner,
            plan: Mutex::default(),
        })
    }

    /// Counts anew, and fails call number `index`, from 0, with `class`. The
    /// calls before and after it are made as usual.
    pub fn fail_call(&self, index: u64, class: ErrorClass) {
        *self.plan.lock() = Plan {
            fail: Some((index, class)),
            ..Plan::default()
        };
    }

    /// Counts anew and fails nothing.
    pub fn disarm(&self) {
        *self.plan.lock() = Plan::default();
    }

    /// How many calls have been counted.
    pub fn calls(&self) -> u64 {
        self.plan.lock().trace.len() as u64
    }

    /// The methods called since counting began, in order.
    pub fn trace(&self) -> Vec<&'static str> {
        self.plan.lock().trace.clone()
    }

    /// The method that was made to fail, if its turn has come.
    pub fn failed(&self) -> Option<&'static str> {
        self.plan.lock().failed
    }

    /// Counts a call and says whether it is the one.
    fn count(&self, call: &'static str) -> Result<(), DriverError> {
        let mut plan = self.plan.lock();
        let index = plan.trace.len() as u64;
        plan.trace.push(call);
        match plan.fail {
            Some((at, class)) if at == index => {
                plan.failed = Some(call);
                Err(DriverError::of(call, class).with("injected fault"))
            }
            _ => Ok(()),
        }
    }
}

impl Wrap for FaultDriver {
    fn inner(&self) -> &DynDriver {
        &self.inner
    }

    fn around<R>(
        &self,
        call: &'static str,
        duty: Duty,
        make: impl FnOnce(&dyn Driver) -> DriverResult<R>,
    ) -> DriverResult<R> {
        match (self.count(call), duty) {
            (Err(fault), Duty::None) => Err(fault),
            (Err(fault), Duty::Release) => make(&*self.inner).and(Err(fault)),
            (Ok(()), _) => make(&*self.inner),
        }
    }

    unsafe fn end(&self, stream: StreamHandle) -> DriverResult<GraphHandle> {
        let counted = self.count("capture_end");
        // SAFETY: the caller's promise, passed on.
        let graph = unsafe { self.inner.capture_end(stream) }?;
        match counted {
            Ok(()) => Ok(graph),
            Err(fault) => {
                // SAFETY: the graph was made just now and nobody else has it.
                unsafe { self.inner.graph_destroy(graph) }?;
                Err(fault)
            }
        }
    }
}

forward_driver!(FaultDriver);
