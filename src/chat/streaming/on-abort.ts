// Listeners of a signal that outlives all calls. The signal itself has one for all of them: adding and removing one there
// costs ten times what a set costs.

import { type Placed, ShortLivedSet } from '../../short-lived.ts'

export interface AbortListener extends Placed {
  onAbort(): void
}

const listenersOf = new WeakMap<AbortSignal, ShortLivedSet<AbortListener>>()

/** Calls `aborted` once when the signal aborts, until `offAbort`; not if it has aborted already. One signal at a time. */
export function onAbort(signal: AbortSignal, listener: AbortListener): void {
  let listeners = listenersOf.get(signal)
  if (!listeners) listenersOf.set(signal, (listeners = listenersTo(signal)))
  listeners.add(listener)
}

function listenersTo(signal: AbortSignal): ShortLivedSet<AbortListener> {
  const listeners = new ShortLivedSet<AbortListener>()
  const tell = () => {
    for (const listener of listeners.values()) if (listeners.delete(listener)) listener.onAbort()
  }
  signal.addEventListener('abort', tell, { once: true })
  return listeners
}

export function offAbort(signal: AbortSignal, listener: AbortListener): void {
  listenersOf.get(signal)?.delete(listener)
}
