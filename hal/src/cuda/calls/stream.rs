//! Streams and events.

use std::ptr;

use cudarc::driver::sys;

use super::super::CudaDriver;
use super::super::handle::Raw;
use crate::driver::{
    DriverResult, ErrorClass, EventHandle, EventScope, HostCall, StreamCalls, StreamHandle,
};

const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
const DISABLE_TIMING: u32 = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
const RECORD_EXTERNAL: u32 = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
const WAIT_EXTERNAL: u32 = sys::CUevent_wait_flags::CU_EVENT_WAIT_EXTERNAL as u32;

// SAFETY: each method is the call of the CUDA driver that the trait describes;
// the driver keeps a stream in order, and its waits.
unsafe impl StreamCalls for CudaDriver {
    fn stream_create(&self, priority: i32) -> DriverResult<StreamHandle> {
        let _current = self.context.enter()?;
        let mut stream = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        unsafe {
            self.library
                .cuStreamCreateWithPriority(&raw mut stream, NON_BLOCKING, priority)
        }?;
        Ok(StreamHandle::of(stream))
    }

    unsafe fn stream_destroy(&self, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuStreamDestroy(stream.raw()) }
    }

    unsafe fn stream_synchronize(&self, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuStreamSynchronize(stream.raw()) }
    }

    unsafe fn stream_query(&self, stream: StreamHandle) -> DriverResult<bool> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        finished(unsafe { self.library.cuStreamQuery(stream.raw()) })
    }

    fn event_create(&self, timing: bool) -> DriverResult<EventHandle> {
        let _current = self.context.enter()?;
        let mut event = ptr::null_mut();
        let flags = if timing { 0 } else { DISABLE_TIMING };
        // SAFETY: the pointer is to a local.
        unsafe { self.library.cuEventCreate(&raw mut event, flags) }?;
        Ok(EventHandle::of(event))
    }

    unsafe fn event_destroy(&self, event: EventHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuEventDestroy(event.raw()) }
    }

    unsafe fn event_record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        let flags = match scope {
            EventScope::Internal => 0,
            EventScope::External => RECORD_EXTERNAL,
        };
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuEventRecordWithFlags(event.raw(), stream.raw(), flags)
        }
    }

    unsafe fn stream_wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
        scope: EventScope,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        let flags = match scope {
            EventScope::Internal => 0,
            EventScope::External => WAIT_EXTERNAL,
        };
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuStreamWaitEvent(stream.raw(), event.raw(), flags)
        }
    }

    unsafe fn event_query(&self, event: EventHandle) -> DriverResult<bool> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        finished(unsafe { self.library.cuEventQuery(event.raw()) })
    }

    unsafe fn event_synchronize(&self, event: EventHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuEventSynchronize(event.raw()) }
    }

    unsafe fn event_elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32> {
        let _current = self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuEventElapsedTime(&raw mut milliseconds, start.raw(), end.raw())
        }?;
        Ok(milliseconds)
    }

    unsafe fn host_call(&self, stream: StreamHandle, call: HostCall) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuLaunchHostFunc(stream.raw(), Some(call.function), call.data)
        }
    }
}

/// Whether work has ended, from the result of a query.
fn finished(query: DriverResult<()>) -> DriverResult<bool> {
    match query {
        Ok(()) => Ok(true),
        Err(error) if error.class == ErrorClass::NotReady => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DriverError;

    #[test]
    fn unfinished_work_is_an_answer_and_a_failure_is_not() {
        assert_eq!(finished(Ok(())), Ok(true));
        let query = |class| finished(Err(DriverError::of("cuStreamQuery", class)));
        assert_eq!(query(ErrorClass::NotReady), Ok(false));
        assert_eq!(
            query(ErrorClass::IllegalAddress),
            Err(DriverError::of("cuStreamQuery", ErrorClass::IllegalAddress))
        );
    }
}
