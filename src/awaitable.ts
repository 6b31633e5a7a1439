// What a store answers at once where it can (SQLite, in this process), and later where it must (across a network).

export type Awaitable<T> = T | Promise<T>

/**
 * Goes on with what `act` gives, at once where it is there at once: an `await` would cost a turn of the microtask queue
 * and let others in between. `failed` takes what `act` throws or rejects with; without it that goes on to the caller.
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
