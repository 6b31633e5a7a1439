// Two links, joined by wires of this process that take and deliver bytes as a socket does: some at a time.

import { Link } from '../../../src/serve/workers/link.ts'

/** Handlers by name. */
type Handlers<T> = { [K in keyof T]: (...given: never[]) => unknown }

export interface Joined<A, B> {
  readonly ours: A
  readonly theirs: B
  /** What broke inside handlers. */
  readonly faults: unknown[]
  /** Nothing is delivered from now on, until `resume`. */
  pause(): void
  resume(): void
  /** The socket is gone for both. */
  cut(): void
}

/** `ours` asks what `answers` answers; each write takes at most `most` bytes. */
export function joined<A extends Handlers<A>, B extends Handlers<B>>(
  answers: A,
  back: B,
  most = 64 * 1024,
): Joined<Link<A, A>, Link<B, B>> {
  const faults: unknown[] = []
  const onFailure = (_: string, error: unknown) => void faults.push(error)
  let paused = false
  const waiting: (() => void)[] = []
  const later = (act: () => void) => {
    if (paused) waiting.push(act)
    else setImmediate(() => (paused ? waiting.push(act) : act()))
  }
  const ended = { ours: false, theirs: false }
  const cut = () => {
    ours.onClose()
    theirs.onClose()
  }
  const wire = (side: 'ours' | 'theirs') => {
    let busy = false
    const from = () => (side === 'ours' ? ours : theirs)
    const to = () => (side === 'ours' ? theirs : ours)
    return {
      write(bytes: Uint8Array): number {
        if (busy) return 0
        const taken = bytes.slice(0, most)
        busy = true
        later(() => {
          busy = false
          to().onBytes(taken)
          from().onDrain()
        })
        return taken.length
      },
      end() {
        if (ended[side]) return
        ended[side] = true
        later(cut)
      },
    }
  }
  const ours: Link<A, A> = new Link({ wire: wire('ours'), handlers: back, onFailure })
  const theirs: Link<B, B> = new Link({ wire: wire('theirs'), handlers: answers, onFailure })
  return {
    ours,
    theirs,
    faults,
    pause: () => void (paused = true),
    resume() {
      paused = false
      for (const act of waiting.splice(0)) later(act)
    },
    cut,
  }
}
