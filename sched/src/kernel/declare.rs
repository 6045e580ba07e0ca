//! The macro that declares kernels.

/// Declares kernels: name, parameters, access modes, and the check of a launch.
///
/// Each declaration makes a type of the kernel's name. It implements
/// [`Kernel`](crate::kernel::Kernel), and it is what a launch is given: a field for
/// each parameter, so that none is taken for another.
///
/// ```
/// # use streamweir_sched::kernel;
/// # use streamweir_sched::kernel::{In, Out};
/// # use streamweir_sched::{LoadedKernel, Persistent, Result, Scratch, Stream};
/// kernel! {
///     /// `output[i] = factor * input[i]` for `i < len`.
///     ///
///     /// # Safety
///     /// A thread touches its own element of either buffer, and none from `len` on.
///     pub unsafe fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32) {
///         input.holds([len])?;
///         output.holds([len])?;
///         Ok((len.div_ceil(256), 256).into())
///     }
/// }
///
/// # fn f(main: &Stream, loaded: &LoadedKernel<scale>, keys: &Persistent<f32>, query: &Scratch<f32>) -> Result<()> {
/// main.launch(loaded, scale { input: keys, output: query, factor: 0.5, len: 1024 })
/// # }
/// ```
///
/// # Parameters
/// A buffer is `In<T>`, `Out<T>`, `InOut<T>` or `Atomic<T>` from
/// [`kernel`](mod@crate::kernel); one that may be null is an `Option` of these; `N` of
/// them, passed by value, are an array of them; a [`Table`](crate::Table) of them lies in
/// device memory. A struct with buffers among its fields
/// is declared by the same macro, and is a parameter like any other. Every other type is
/// a scalar that implements [`Scalar`](crate::kernel::Scalar). The symbol is the
/// name, so declare the kernel `extern "C"` in CUDA C++. The
/// type has no value of its name, so that a variable may have it: name the
/// kernel by type, `module.kernel::<scale>()`. No parameter has the kernel's own name.
///
/// ```
/// use streamweir_sched::kernel;
/// use streamweir_sched::kernel::{In, Kernel, Out};
///
/// kernel! {
///     /// Where rows come from and go to: `struct Rows { const float* from[2]; float* to; }`.
///     pub struct Rows { from: [In<f32>; 2], to: Out<f32> }
///
///     /// `to = from[0] + from[1]`, with `bias` added where it is there.
///     ///
///     /// # Safety
///     /// A thread touches its own element of each buffer, and none from `len` on.
///     pub unsafe fn add(rows: Rows, bias: Option<In<f32>>, len: u32) {
///         for from in rows.from {
///             from.holds([len])?;
///         }
///         rows.to.holds([len])?;
///         if let Some(bias) = bias {
///             bias.holds([len])?;
///         }
///         Ok((len.div_ceil(256), 256).into())
///     }
/// }
///
/// let sizes: Vec<_> = add::signature().params.iter().map(|p| p.size).collect();
/// assert_eq!(sizes, [24, 8, 4]);
/// ```
///
/// # The check, and who vouches
/// A declaration with a body is an `unsafe fn`. The body sees each buffer as its
/// [`Extent`](crate::kernel::Extent), each scalar as its value; it refuses what the
/// kernel does not take and gives the shape of the launch. Its author vouches, in the
/// words under `# Safety`, for this: **launched in that shape with arguments that pass,
/// and whatever the buffers contain, the kernel touches no memory but that of its
/// buffer parameters, within their extents and in their modes.** Indices and lengths
/// that stand in device memory are data, and are clamped or refused by the kernel.
/// An address that is passed as a number, or that the kernel finds in memory, is
/// memory that the declaration does not name.
///
/// What the kernel's parameters do not show and its shape needs, such as how many
/// blocks share the work, stands after a `;`. What the device is, for a kernel whose
/// shape depends on it, has the name that stands after `on`:
///
/// ```
/// use streamweir_sched::kernel;
/// use streamweir_sched::kernel::{In, Out};
///
/// kernel! {
///     /// Sums, by as many blocks as the caller gives.
///     ///
///     /// # Safety
///     /// Blocks share the first `len` elements out evenly and write a sum each.
///     pub unsafe fn sums(input: In<f32>, output: Out<f32>, len: u32; blocks: u32) on device {
///         input.holds([len])?;
///         output.holds([blocks])?;
///         Ok((blocks, if device.capability >= (9, 0) { 512 } else { 256 }).into())
///     }
/// }
/// ```
///
/// A declaration without a body, `fn`, promises nothing but the modes. It is launched
/// by [`launch_unchecked`](crate::Stream::launch_unchecked), where the caller vouches.
///
/// A launch refuses an argument whose bytes are also those of one that the kernel
/// writes. `#[in_place(input, output)]` allows the two to be the same bytes, for a
/// kernel of which each thread reads an element before it writes it.
///
/// # Blocks that wait for each other
/// `#[blocks(Spin)]` in front says that the blocks of the kernel spin on each
/// other's progress: a barrier over the grid, a counter that the last block
/// waits for. The verifier then refuses to have another kernel run beside it
/// (R14), for the blocks that spin may keep those that they wait for from
/// starting. `#[blocks(Cooperative)]` says that they do, and makes every launch of the
/// kernel a cooperative one: the device runs all of its blocks together or none, so it
/// may run beside others. A grid of more blocks than the device holds at once is refused
/// by the driver.
///
/// A check may also ask for clusters, dynamic shared memory and a priority of the launch:
/// `Ok(LaunchShape::from((blocks, 256)).cluster([2, 1, 1]).shared(96 << 10).priority(-1))`.
///
/// ```
/// use streamweir_sched::kernel;
/// use streamweir_sched::kernel::{BlockSync, In, InOut, Kernel, Out};
///
/// kernel! {
///     /// Top-k in one pass: the last block waits for the others.
///     #[blocks(Spin)]
///     pub fn top_k(scores: In<f32>, arrived: InOut<u32>, picked: Out<i32>, k: u32);
/// }
///
/// assert_eq!(top_k::signature().sync, BlockSync::Spin);
/// ```
///
/// # Kernels that start early
/// `#[waits]` says that every thread of the kernel executes `griddepcontrol.wait`
/// (`cudaGridDependencySynchronize()`) before it touches memory. The code has to be
/// compiled for compute capability 9.0 or later: in code for an older one there is
/// no such instruction, the device runs it as it is, and the attribute does not
/// count. Launches of such a
/// kernel in a capture are programmatic, on devices of that capability: its
/// blocks are there when what it follows ends, or, where that says
/// `griddepcontrol.launch_dependents` (`cudaTriggerProgrammaticLaunchCompletion()`),
/// as soon as there is room. A kernel of a library before it needs to know nothing
/// of this. Proofs count on the wait, and reports list it among their assumptions.
/// [`CaptureOptions::programmatic`](crate::CaptureOptions::programmatic) switches it
/// off for a capture.
///
/// ```
/// use streamweir_sched::kernel;
/// use streamweir_sched::kernel::{In, Kernel, Out, PdlWait};
///
/// kernel! {
///     /// Calls `cudaGridDependencySynchronize()` first.
///     #[waits]
///     pub fn norm(x: In<f32>, out: Out<f32>, rows: u32);
/// }
///
/// assert_eq!(norm::signature().pdl, PdlWait::OnAllPaths);
/// ```
#[macro_export]
macro_rules! kernel {
    () => {};
    (
        $(#[$($meta:tt)*])* $vis:vis struct $name:ident {
            $($(#[$doc:meta])* $field:ident: $spec:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $crate::__kernel_struct! {
            { $(#[$($meta)*])* $vis $name } { $($(#[$doc])* $field: $spec,)* }
        }
        $crate::kernel! { $($rest)* }
    };
    (
        $(#[$($meta:tt)*])* $vis:vis unsafe fn $name:ident(
            $($param:ident: $spec:ty),* $(,)? $(; $($extra:ident: $value:ty),* $(,)?)?
        ) $(on $device:ident)? $check:block
        $($rest:tt)*
    ) => {
        $crate::__kernel_declare! {
            [$([$($meta)*])*] $vis $name ($($param: $spec,)*) ($($($extra: $value,)*)?)
        }

        // SAFETY: each field is bound to its own parameter, and the check is the
        // declaration's own, for which its author vouches.
        #[allow(non_camel_case_types, clippy::undocumented_unsafe_blocks)]
        unsafe impl<__Lane, $($param: $crate::Arg<$spec, __Lane>),*>
            $crate::CheckedArgs<$name, __Lane> for $name<$($param),*>
        {
            #[allow(unused_variables, unused_mut)]
            fn check(
                &self,
                mut given: $crate::kernel::Given<'_>,
            ) -> ::core::result::Result<$crate::driver::LaunchShape, $crate::kernel::Refusal> {
                $(let $device = given.device();)?
                $(let $param = <$spec as $crate::kernel::Spec>::given(given.next(stringify!($param)));)*
                $($(let $extra = self.$extra;)*)?
                $check
            }
        }
        $crate::kernel! { $($rest)* }
    };
    (
        $(#[$($meta:tt)*])* $vis:vis fn $name:ident($($param:ident: $spec:ty),* $(,)?)
        $(; $($rest:tt)*)?
    ) => {
        $crate::__kernel_declare! { [$([$($meta)*])*] $vis $name ($($param: $spec,)*) () }
        $($crate::kernel! { $($rest)* })?
    };
}

/// The type of a kernel, its declaration, and its arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_declare {
    (
        [$([$($meta:tt)*])*] $vis:vis $name:ident
        ($($param:ident: $spec:ty,)*) ($($extra:ident: $value:ty,)*)
    ) => {
        $crate::__kernel_type! {
            [] [$([$($meta)*])*] $vis $name ($($param,)*) ($($extra: $value,)*)
        }

        impl $crate::kernel::Kernel for $name {
            const SYMBOL: &'static str = stringify!($name);

            type Raw = ($(<$spec as $crate::kernel::Spec>::Raw,)*);

            fn signature() -> $crate::kernel::Signature {
                $crate::kernel::Signature::new(
                    stringify!($name),
                    &const { [$(
                        $crate::kernel::ParamDecl::of::<$spec>(stringify!($param)),
                    )*] },
                )
                .with_sync($crate::__kernel_sync!($([$($meta)*])*))
                .with_pdl($crate::__kernel_pdl!($([$($meta)*])*))
                .with_in_place(&const { $crate::__kernel_in_place!([] $([$($meta)*])*) })
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn decode(params: &[u8]) -> Self::Raw {
                let mut offset = 0;
                ($($crate::kernel::Spec::decode_next(
                    ::core::marker::PhantomData::<$spec>,
                    params,
                    &mut offset,
                ),)*)
            }
        }

        // The parameters' names serve as names of the arguments' types.
        // SAFETY: each field is bound to its own parameter, in order.
        #[allow(non_camel_case_types, clippy::undocumented_unsafe_blocks)]
        unsafe impl<__Lane, $($param: $crate::Arg<$spec, __Lane>),*>
            $crate::Args<$name, __Lane> for $name<$($param),*>
        {
            #[allow(unused_variables)]
            fn bind(&self, binder: &mut $crate::Binder<'_>) -> $crate::Result<()> {
                $(
                    binder.next();
                    $crate::Arg::<$spec, __Lane>::bind(&self.$param, binder, 0)?;
                )*
                ::core::result::Result::Ok(())
            }
        }
    };
}

/// A struct of parameters: a type of which each field is what stands for it, in the
/// declaration, in a launch, in a check and in a twin.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_struct {
    ({ $(#[$($meta:tt)*])* $vis:vis $name:ident } { $($(#[$doc:meta])* $field:ident: $spec:ty,)* }) => {
        $(#[$($meta)*])*
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name<$($field = (),)*> {
            $($(#[$doc])* pub $field: $field,)*
        }

        impl $crate::kernel::Spec for $name {
            type Raw = $name<$(<$spec as $crate::kernel::Spec>::Raw,)*>;
            type Given = $name<$(<$spec as $crate::kernel::Spec>::Given,)*>;

            const SIZE: u32 = $crate::kernel::layout([
                $($crate::kernel::FieldShape::of::<$spec>(stringify!($field)),)*
            ]).0;
            const ALIGN: u32 = $crate::kernel::layout([
                $($crate::kernel::FieldShape::of::<$spec>(stringify!($field)),)*
            ]).1;
            const ROLE: $crate::kernel::Role = $crate::kernel::Role::Fields(
                &const { $crate::kernel::fields([
                    $($crate::kernel::FieldShape::of::<$spec>(stringify!($field)),)*
                ]) },
            );

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn decode(bytes: &[u8]) -> Self::Raw {
                let mut offset = 0;
                $name {
                    $($field: $crate::kernel::Spec::decode_next(
                        ::core::marker::PhantomData::<$spec>,
                        bytes,
                        &mut offset,
                    ),)*
                }
            }

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn given(argument: $crate::kernel::Argument<'_>) -> Self::Given {
                let mut end = 0_u32;
                $(
                    let offset = end.next_multiple_of(<$spec as $crate::kernel::Spec>::ALIGN);
                    end = offset + <$spec as $crate::kernel::Spec>::SIZE;
                    let $field = <$spec as $crate::kernel::Spec>::given(argument.field(
                        stringify!($field),
                        offset,
                        <$spec as $crate::kernel::Spec>::SIZE,
                    ));
                )*
                $name { $($field,)* }
            }
        }

        // SAFETY: each field is bound at its own place.
        #[allow(non_camel_case_types, clippy::undocumented_unsafe_blocks)]
        unsafe impl<__Lane, $($field: $crate::Arg<$spec, __Lane>),*>
            $crate::Arg<$name, __Lane> for $name<$($field),*>
        {
            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn bind(&self, binder: &mut $crate::Binder<'_>, at: u32) -> $crate::Result<()> {
                let mut end = at;
                $(
                    let offset = end.next_multiple_of(<$spec as $crate::kernel::Spec>::ALIGN);
                    end = offset + <$spec as $crate::kernel::Spec>::SIZE;
                    $crate::Arg::<$spec, __Lane>::bind(&self.$field, binder, offset)?;
                )*
                ::core::result::Result::Ok(())
            }
        }
    };
}

/// The type of a kernel, with all of its attributes but those that are for
/// [`kernel!`] itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_type {
    ([$($kept:tt)*] [] $vis:vis $name:ident ($($param:ident,)*) ($($extra:ident: $value:ty,)*)) => {
        $(#$kept)*
        #[allow(non_camel_case_types, dead_code)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name<$($param = (),)*> {
            $(
                #[doc = concat!("The argument for parameter `", stringify!($param), "`.")]
                pub $param: $param,
            )*
            $(
                #[doc = concat!("`", stringify!($extra), "`, for the shape of the launch.")]
                pub $extra: $value,
            )*
        }
    };
    ([$($kept:tt)*] [[blocks $($said:tt)*] $($more:tt)*] $($type:tt)*) => {
        $crate::__kernel_type! { [$($kept)*] [$($more)*] $($type)* }
    };
    ([$($kept:tt)*] [[waits $($said:tt)*] $($more:tt)*] $($type:tt)*) => {
        $crate::__kernel_type! { [$($kept)*] [$($more)*] $($type)* }
    };
    ([$($kept:tt)*] [[in_place $($said:tt)*] $($more:tt)*] $($type:tt)*) => {
        $crate::__kernel_type! { [$($kept)*] [$($more)*] $($type)* }
    };
    ([$($kept:tt)*] [$meta:tt $($more:tt)*] $($type:tt)*) => {
        $crate::__kernel_type! { [$($kept)* $meta] [$($more)*] $($type)* }
    };
}

/// The pairs of the attributes `in_place`.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_in_place {
    ([$($pairs:tt)*]) => { [$($pairs)*] };
    ([$($pairs:tt)*] [in_place($one:ident, $other:ident)] $($more:tt)*) => {
        $crate::__kernel_in_place!([$($pairs)* (stringify!($one), stringify!($other)),] $($more)*)
    };
    ([$($pairs:tt)*] [in_place $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("`in_place` takes two parameters: `#[in_place(input, output)]`")
    };
    ([$($pairs:tt)*] $meta:tt $($more:tt)*) => {
        $crate::__kernel_in_place!([$($pairs)*] $($more)*)
    };
}

/// What the attribute `blocks` says, if there is one. A second one is refused:
/// whichever counted, a reader would take the other for true.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_sync {
    () => { $crate::kernel::BlockSync::Independent };
    ([blocks($sync:ident)] $($more:tt)*) => { $crate::__kernel_sync!(@only $sync $($more)*) };
    ([blocks $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("`blocks` takes one word: `#[blocks(Spin)]` or `#[blocks(Cooperative)]`")
    };
    (@only $sync:ident) => { $crate::kernel::BlockSync::$sync };
    (@only $sync:ident [blocks $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("a kernel has two attributes `blocks`: its blocks are of one kind, so leave one of them out")
    };
    (@only $sync:ident $meta:tt $($more:tt)*) => { $crate::__kernel_sync!(@only $sync $($more)*) };
    ($meta:tt $($more:tt)*) => { $crate::__kernel_sync!($($more)*) };
}

/// What the attribute `waits` says, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_pdl {
    () => { $crate::kernel::PdlWait::None };
    ([waits] $($more:tt)*) => { $crate::kernel::PdlWait::OnAllPaths };
    ([waits $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("`waits` takes nothing: `#[waits]` says that every thread of the kernel waits for what the kernel follows before it touches memory")
    };
    ($meta:tt $($more:tt)*) => { $crate::__kernel_pdl!($($more)*) };
}
