// What a store answers at once where it can (SQLite, in this process), and later where it must (across a network).

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
