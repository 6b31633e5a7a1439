// What a store answers at once where it can (SQLite, in this process), and later where it must (across a network); and
// work that is waited for only so long.

export type Awaitable<T> = T | Promise<T>

/**
 * Continues with the result of `act`, synchronously if it is not a promise: an `await` would cost a turn of the
 * microtask queue and let other work in between. `failed` handles what `act` throws or rejects with; without it that
 * reaches the caller.
 */
export function whenDone<T, R>(
  act: () => Awaitable<T>,
  following: (value: T) => Awaitable<R>,
  failed?: (error: unknown) => Awaitable<R>,
): Awaitable<R> {
  let done: Awaitable<T>
  try {
    done = act()
  } catch (error) {
    if (!failed) throw error
    return failed(error)
  }
  return done instanceof Promise ? done.then(following, failed) : following(done)
}

/** As `whenDone`, of a value that is there already or will be. */
export function andThen<T, R>(value: Awaitable<T>, following: (value: T) => Awaitable<R>): Awaitable<R> {
  return value instanceof Promise ? value.then(following) : following(value)
}

/**
 * Resolves when `work` has settled, either way, or `ms` milliseconds have passed. Never rejects. A process that has
 * nothing else to do does not stay for the rest of the time.
 */
export async function settledWithin(ms: number, work: Promise<unknown> | undefined): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, ms)
  await Promise.race([work, late.promise]).catch(() => undefined)
  clearTimeout(timer)
}
