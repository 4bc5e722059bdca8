//! Locks that know their place in the lock order, and what may be done while they are held.
//!
//! A room declares its order once with [`lock_order!`](crate::lock_order): each lock is a type, and
//! `Mutex<Queue, Commits>` is a mutex of that class. In builds with debug assertions each thread keeps
//! a list of the classes that it holds. In other builds a lock is the plain lock, and nothing more.
//!
//! Invariants, checked in builds with debug assertions:
//! 1. A thread takes only a lock that stands below every lock that it holds. A lock that is tried for
//!    and not waited for may stand anywhere. Locks of one class may be held together only where the
//!    order says `several`.
//! 2. A thread that holds a lock does no I/O and does not wait, but for the kinds of I/O that the
//!    order lists for that lock with a reason. The simulated machine asks before each call.
//! 3. A thread that waits on a [`Condvar`] does not hold the lock that it waits with.
//!
//! A thread that breaks the rules ends the process, with a message that names the lock, the operation
//! and the file. A panic would not do: background work catches panics and tells writers of them, and
//! many tests expect failures.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Slow work, which waits for others than this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// Opens a file, or asks whether one exists, how long it is, what a directory holds.
    Open,
    /// Reads a file.
    Read,
    /// Writes, reserves space or cuts a file.
    Write,
    /// Syncs a file or a directory.
    Sync,
    /// Creates, renames, links or removes a file or a directory.
    Name,
    /// Waits for other threads, or for the time that the rate of background work demands; runs
    /// queued work of the simulated machine.
    Wait,
}

impl Io {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A lock of the lock order. Only builds with debug assertions look at its place in the order.
#[derive(Debug)]
#[cfg_attr(not(debug_assertions), expect(dead_code))]
pub struct Class {
    name: &'static str,
    /// Its place in the order; the outermost lock has the least.
    level: usize,
    /// A thread may hold several locks of the class.
    several: bool,
    /// I/O that a thread may do while it holds the lock, with the reason.
    exceptions: &'static [(Io, &'static str)],
    /// The kinds of I/O that were done under it, as bits.
    met: AtomicU32,
}

impl Class {
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        level: usize,
        several: bool,
        exceptions: &'static [(Io, &'static str)],
    ) -> Self {
        Self { name, level, several, exceptions, met: AtomicU32::new(0) }
    }

    /// The name of the lock.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The kinds of I/O that the order lists for the lock, and that this process has not done under
    /// it. In builds without debug assertions nothing was done.
    pub fn not_met(&self) -> Vec<Io> {
        let met = self.met.load(Ordering::Relaxed);
        let listed = self.exceptions.iter().map(|(io, _)| *io);
        listed.filter(|io| met & io.bit() == 0).collect()
    }

    #[cfg(debug_assertions)]
    fn allows(&self, io: Io) -> bool {
        self.exceptions.iter().any(|(listed, _)| *listed == io)
    }
}

/// A type that stands for a lock of the order.
pub trait LockClass: 'static {
    /// The lock.
    fn class() -> &'static Class;
}

/// Declares a lock order and the list of its locks, outermost first: for each lock `/// doc`, its
/// name, the word `several` if a thread may hold more than one of them, and the kinds of I/O
/// ([`Io`]) that may be done under it, each with its reason.
///
/// ```
/// use base::sync::Mutex;
/// base::lock_order! {
///     static LOCKS;
///     /// The oven's door.
///     Door { Wait: "bread takes its time" }
///     /// A tray.
///     Tray several {}
/// }
/// let (door, tray) = (Mutex::<_, Door>::new(1), Mutex::<_, Tray>::new(2));
/// let open = door.lock();
/// assert_eq!(*open + *tray.lock(), 3);
/// assert_eq!(LOCKS[0].name(), "Door");
/// ```
#[macro_export]
macro_rules! lock_order {
    (@several) => { false };
    (@several several) => { true };
    ($vis:vis static $all:ident; $(
        $(#[$doc:meta])*
        $name:ident $($several:ident)? { $($io:ident: $reason:literal),* $(,)? }
    )*) => {
        /// Every lock, outermost first.
        $vis static $all: &[&$crate::sync::Class] = &[$(&lock_order_classes::$name,)*];

        #[allow(non_upper_case_globals)]
        mod lock_order_classes {
            use $crate::sync::{Class, Io};

            enum Level { $($name,)* }

            $(pub(super) static $name: Class = Class::new(
                stringify!($name),
                Level::$name as usize,
                $crate::lock_order!(@several $($several)?),
                { const LISTED: &[(Io, &str)] = &[$((Io::$io, $reason),)*]; LISTED },
            );)*
        }

        $(
            $(#[$doc])*
            #[derive(Debug)]
            $vis struct $name;

            impl $crate::sync::LockClass for $name {
                fn class() -> &'static $crate::sync::Class {
                    &lock_order_classes::$name
                }
            }
        )*
    };
}

/// Ends the process if the calling thread holds a lock under which `io` may not be done. `what` names
/// the operation and its file. Does nothing in builds without debug assertions.
#[inline(always)]
pub fn before_io(io: Io, what: impl FnOnce() -> String) {
    #[cfg(debug_assertions)]
    held::before_io(io, what);
    #[cfg(not(debug_assertions))]
    let _ = (io, what);
}

/// Returns whether the calling thread holds a lock of an order. `false` in builds without debug
/// assertions, which do not know.
pub fn holds_any() -> bool {
    #[cfg(debug_assertions)]
    let holds = held::any();
    #[cfg(not(debug_assertions))]
    let holds = false;
    holds
}

/// A mutex of the class `C`.
#[repr(transparent)]
pub struct Mutex<T, C> {
    inner: parking_lot::Mutex<T>,
    class: PhantomData<C>,
}

/// Access to what a [`Mutex`] guards; the mutex is unlocked when it is dropped.
pub struct MutexGuard<'a, T, C: LockClass> {
    // First, so that the mutex is unlocked before it counts as not held.
    inner: parking_lot::MutexGuard<'a, T>,
    _held: Held<C>,
}

impl<T, C: LockClass> Mutex<T, C> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self { inner: parking_lot::Mutex::new(value), class: PhantomData }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, C> {
        let held = Held::by_waiting();
        MutexGuard { inner: self.inner.lock(), _held: held }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, C>> {
        let inner = self.inner.try_lock()?;
        Some(MutexGuard { inner, _held: Held::by_trying() })
    }

    /// Returns the guarded value; `&mut self` proves that no one else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T, C: LockClass> MutexGuard<'_, T, C> {
    /// Runs `act` without the lock, and waits for it again.
    #[inline]
    pub fn unlocked<R>(guard: &mut Self, act: impl FnOnce() -> R) -> R {
        let _without = Without::<C>::begin();
        parking_lot::MutexGuard::unlocked(&mut guard.inner, act)
    }
}

/// A lock for many readers or one writer, of the class `C`.
#[repr(transparent)]
pub struct RwLock<T, C> {
    inner: parking_lot::RwLock<T>,
    class: PhantomData<C>,
}

/// Shared access to what a [`RwLock`] guards.
pub struct ReadGuard<'a, T, C: LockClass> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    _held: Held<C>,
}

/// The only access to what a [`RwLock`] guards.
pub struct WriteGuard<'a, T, C: LockClass> {
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    _held: Held<C>,
}

impl<T, C: LockClass> RwLock<T, C> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self { inner: parking_lot::RwLock::new(value), class: PhantomData }
    }

    /// Waits until nobody writes.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T, C> {
        let held = Held::by_waiting();
        ReadGuard { inner: self.inner.read(), _held: held }
    }

    /// Waits until nobody reads or writes.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T, C> {
        let held = Held::by_waiting();
        WriteGuard { inner: self.inner.write(), _held: held }
    }
}

/// Condition that threads with a [`Mutex`] wait for.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// One on which nobody waits.
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits, without the lock, until it is woken.
    pub fn wait<T, C: LockClass>(&self, guard: &mut MutexGuard<'_, T, C>) {
        let _without = Without::<C>::begin_waiting();
        self.0.wait(&mut guard.inner);
    }

    /// Waits, without the lock, until it is woken or `longest` has passed.
    pub fn wait_for<T, C: LockClass>(&self, guard: &mut MutexGuard<'_, T, C>, longest: Duration) {
        let _without = Without::<C>::begin_waiting();
        self.0.wait_for(&mut guard.inner, longest);
    }

    /// Waits, without the lock, while `condition` holds; it is asked with the lock.
    pub fn wait_while<T, C: LockClass>(
        &self,
        guard: &mut MutexGuard<'_, T, C>,
        condition: impl FnMut(&mut T) -> bool,
    ) {
        let _without = Without::<C>::begin_waiting();
        self.0.wait_while(&mut guard.inner, condition);
    }
}

/// The time in which a thread holds a lock of the class.
struct Held<C: LockClass>(PhantomData<C>);

impl<C: LockClass> Held<C> {
    #[inline(always)]
    fn by_waiting() -> Self {
        #[cfg(debug_assertions)]
        held::add_in_order(C::class());
        Self(PhantomData)
    }

    #[inline(always)]
    fn by_trying() -> Self {
        #[cfg(debug_assertions)]
        held::add(C::class());
        Self(PhantomData)
    }
}

#[cfg(debug_assertions)]
impl<C: LockClass> Drop for Held<C> {
    fn drop(&mut self) {
        held::remove(C::class());
    }
}

/// The time in which a thread gives up a lock that it has a guard of.
struct Without<C: LockClass>(PhantomData<C>);

impl<C: LockClass> Without<C> {
    #[inline(always)]
    fn begin() -> Self {
        #[cfg(debug_assertions)]
        held::remove(C::class());
        Self(PhantomData)
    }

    #[inline(always)]
    fn begin_waiting() -> Self {
        let without = Self::begin();
        before_io(Io::Wait, || format!("a wait with {}", C::class().name()));
        without
    }
}

#[cfg(debug_assertions)]
impl<C: LockClass> Drop for Without<C> {
    fn drop(&mut self) {
        held::add(C::class());
    }
}

/// Locks that the calling thread holds.
#[cfg(debug_assertions)]
mod held {
    use super::{Class, Io, Ordering};
    use std::cell::RefCell;
    use std::io::Write;

    thread_local! {
        static HELD: RefCell<Vec<&'static Class>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn add(class: &'static Class) {
        // A thread that ends drops its values without a list.
        let _ = HELD.try_with(|held| held.borrow_mut().push(class));
    }

    pub(super) fn add_in_order(class: &'static Class) {
        let above = |held: &&&Class| {
            held.level > class.level || held.level == class.level && !class.several
        };
        let broken = HELD.try_with(|held| held.borrow().iter().find(above).copied());
        if let Ok(Some(held)) = broken {
            let (held, taken) = (held.name, class.name);
            end(&format!("the lock {taken} is taken while {held} is held: against the lock order"));
        }
        add(class);
    }

    pub(super) fn remove(class: &'static Class) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(last) = held.iter().rposition(|held| std::ptr::eq(*held, class)) {
                held.remove(last);
            }
        });
    }

    pub(super) fn any() -> bool {
        HELD.try_with(|held| !held.borrow().is_empty()).unwrap_or(false)
    }

    pub(super) fn before_io(io: Io, what: impl FnOnce() -> String) {
        let refused = HELD.try_with(|held| {
            let held = held.borrow();
            held.iter().for_each(|held| _ = held.met.fetch_or(io.bit(), Ordering::Relaxed));
            held.iter().find(|held| !held.allows(io)).copied()
        });
        if let Ok(Some(held)) = refused {
            let name = held.name;
            end(&format!(
                "{io:?} while the lock {name} is held, which lists no reason: {}",
                what()
            ));
        }
    }

    /// Past the capture of the test harness, which an abort would leave unread.
    fn end(message: &str) -> ! {
        let thread = std::thread::current();
        let at = std::backtrace::Backtrace::force_capture();
        let name = thread.name().unwrap_or("without a name");
        let _ = writeln!(std::io::stderr(), "thread {name}: {message}\n{at}");
        std::process::abort();
    }
}

impl<T: Default, C: LockClass> Default for Mutex<T, C> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Default, C: LockClass> Default for RwLock<T, C> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug, C> fmt::Debug for Mutex<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: fmt::Debug, C> fmt::Debug for RwLock<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T, C: LockClass> Deref for MutexGuard<'_, T, C> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, C: LockClass> DerefMut for MutexGuard<'_, T, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T, C: LockClass> Deref for ReadGuard<'_, T, C> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, C: LockClass> Deref for WriteGuard<'_, T, C> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, C: LockClass> DerefMut for WriteGuard<'_, T, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(test)]
mod tests;
