//! A candle device, adopted.

use std::any::Any;
use std::sync::Arc;

use candle_core::backend::BackendDevice;
use candle_core::cuda_backend::CudaDType;
use candle_core::{CudaDevice, Storage, Tensor, WithDType};
use streamweir::cudarc::driver::sys::CUstreamCaptureStatus;
use streamweir::cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use streamweir::kernel::Element;
use streamweir::{Device, DeviceStream, Persistent};

use crate::error::{Error, Result};

/// The context and the stream of a candle device, in use by both.
pub struct Engine {
    candle: CudaDevice,
    cuda_stream: Arc<CudaStream>,
    device: Device,
    stream: DeviceStream,
}

impl Engine {
    /// Adopts `candle`. Its context and its stream stay candle's, and live as
    /// long as they are in use here.
    ///
    /// # Errors
    /// For a device that is not CUDA's, one on a default stream (as
    /// `Device::new_cuda` makes it), and a driver that is too old.
    pub fn adopt(candle: &candle_core::Device) -> Result<Self> {
        let candle_core::Device::Cuda(candle) = candle else {
            return Err(Error::NotCuda {
                what: "the device".to_owned(),
            });
        };
        let cuda_stream = candle.cuda_stream();
        let device = Device::from_cudarc(cuda_stream.context())?;
        let stream = DeviceStream::from_cudarc(&device, "candle", &cuda_stream)?;
        Ok(Self {
            candle: candle.clone(),
            cuda_stream,
            device,
            stream,
        })
    }

    /// The device, for kernels and captures.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// candle's stream, for replays.
    pub fn stream(&self) -> &DeviceStream {
        &self.stream
    }

    /// A tensor as a persistent buffer, where it lies. The buffer, and each graph
    /// that touches it, holds the tensor. A view counts for the elements that it
    /// shows, from its offset on. What kernels write into the buffer, every clone
    /// and view of the tensor shows.
    ///
    /// Nothing is waited for: replays on [`stream`](Self::stream) come after what
    /// candle has enqueued.
    ///
    /// # Errors
    /// For a tensor of another device or element type, one that is not
    /// contiguous, one that overlaps a registered one, and during a capture.
    ///
    /// # Safety
    /// While the buffer or a graph lives, no in-place op puts another allocation
    /// into the tensor's storage, and work on the tensor is candle's on this
    /// device.
    pub unsafe fn persistent<T: Element + CudaDType + WithDType>(
        &self,
        name: &str,
        tensor: &Tensor,
    ) -> Result<Persistent<T>> {
        let of_tensor = || name.to_owned();
        if self.is_capturing()? {
            return Err(Error::Capturing {
                tensor: of_tensor(),
            });
        }
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            return Err(Error::NotCuda {
                what: format!("tensor \"{name}\""),
            });
        };
        if !storage.device.same_device(&self.candle) {
            return Err(Error::OtherDevice {
                tensor: of_tensor(),
            });
        }
        if tensor.dtype() != T::DTYPE {
            return Err(Error::Type {
                tensor: of_tensor(),
                is: tensor.dtype(),
                wanted: T::DTYPE,
            });
        }
        let Some((start, end)) = layout.contiguous_offsets() else {
            return Err(Error::Strided {
                tensor: of_tensor(),
                shape: layout.dims().to_vec(),
                strides: layout.stride().to_vec(),
            });
        };
        let address = self.address(storage.as_cuda_slice::<T>()?, start);
        let keep: Arc<dyn Any + Send + Sync> = Arc::new(tensor.clone());
        // SAFETY: the slice has these elements at this address for as long as
        // the storage holds it, by the caller; the tensor holds the storage.
        Ok(unsafe { Persistent::from_raw(&self.device, address, end - start, name, keep) }?)
    }

    /// Whether candle's stream is being captured.
    ///
    /// # Errors
    /// When the driver fails.
    pub fn is_capturing(&self) -> Result<bool> {
        let status = self
            .cuda_stream
            .capture_status()
            .map_err(|error| Error::Candle(candle_core::Error::wrap(error)))?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Whether a use of a tensor would touch an event.
    pub(crate) fn tracks_events(&self) -> bool {
        self.candle.is_event_tracking()
    }

    /// The address of element `start`. With event tracking this makes driver
    /// calls, so it is not for use inside a capture then.
    pub(crate) fn address<T>(&self, slice: &CudaSlice<T>, start: usize) -> u64 {
        let (address, _used) = slice.device_ptr(&self.cuda_stream);
        address + (start * size_of::<T>()) as u64
    }
}
