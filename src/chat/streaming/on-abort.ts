// Listeners of a signal that outlives all calls. The signal itself has one for all of them: adding and removing one there
// costs ten times what a set costs.

const listenersOf = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `listener` once when the signal aborts, until `offAbort`; not if it has aborted already. */
export function onAbort(signal: AbortSignal, listener: () => void): void {
  const known = listenersOf.get(signal)
  if (known) {
    known.add(listener)
    return
  }
  const listeners = new Set([listener])
  listenersOf.set(signal, listeners)
  signal.addEventListener('abort', () => listeners.forEach((each) => each()), { once: true })
}

export function offAbort(signal: AbortSignal, listener: () => void): void {
  listenersOf.get(signal)?.delete(listener)
}
