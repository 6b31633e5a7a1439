// Password rules and hashes. Hashing is deliberately expensive, so few run concurrently and few wait.

import { GatewayError } from '../../errors/errors.ts'
import { Shares } from '../../scheduler/scheduler.ts'

export const shortestPassword = 10
export const longestPassword = 128

/** OWASP's first choice for argon2id: 19 MiB, two passes. */
const argon2id = { algorithm: 'argon2id', memoryCost: 19_456, timeCost: 2 } as const

/** The hash of an unknown password, so that an unknown address takes as long as a known one. */
const nobodysHash =
  '$argon2id$v=19$m=19456,t=2,p=1$j956gOD5Td/Yf8YOAdJqNw+cd3WEq14py9dXVwdfZ2A$8DazhX2S8KAcwRAv9gfAABYSMfoQUlLEDQaQXJ61DSM'

/** More concurrent hashes would slow everybody's streams down. */
const hashesAtOnce = 2
const hashesWaiting = 64

/**
 * Hashes and checks passwords, at most two concurrently. Networks take turns, and each may have as many running and
 * waiting as are left free for all others: nobody keeps others from signing in.
 */
export class Passwords {
  #running = 0
  readonly #places = new Shares()
  /** By network, the next one first. */
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Rejects with `rate_limit_exceeded` if too many are waiting, of all or of the visitor's network. */
  hash(password: string, network: string): Promise<string> {
    return this.#whenFree(network, () => Bun.password.hash(canonical(password), argon2id))
  }

  /** Whether a password has this hash. Without a hash it does not, after the same time. Rejects like `hash`. */
  async matches(password: string, hash: string | null, network: string): Promise<boolean> {
    const verify = () => Bun.password.verify(canonical(password), hash ?? nobodysHash)
    return (await this.#whenFree(network, verify)) && hash !== null
  }

  async #whenFree<T>(network: string, work: () => Promise<T>): Promise<T> {
    const all = hashesAtOnce + hashesWaiting
    if (this.#places.isFull(all) || this.#places.isShareUsed(all, network)) {
      const message = 'Too many people are signing in at this moment.'
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 2_000 })
    }
    this.#places.take(network)
    try {
      await this.#begin(network)
      return await work()
    } finally {
      this.#places.giveBack(network)
      this.#next()
    }
  }

  async #begin(network: string): Promise<void> {
    if (this.#running < hashesAtOnce) {
      this.#running++
      return
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    const others = this.#waiting.get(network)
    if (others) others.push(resolve)
    else this.#waiting.set(network, [resolve])
    await promise
  }

  /** Hands the slot to the first of the network whose turn it is. */
  #next(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#running--
      return
    }
    const [network, waiting] = next
    const go = waiting.shift()!
    // Behind the others: it is their turn now.
    this.#waiting.delete(network)
    if (waiting.length > 0) this.#waiting.set(network, waiting)
    go()
  }
}

/** Normalises Unicode: keyboards differ in how they compose accents. */
function canonical(password: string): string {
  return password.normalize('NFKC')
}

/** What is wrong with a new password, as a sentence; undefined if it is acceptable. */
export async function passwordFault(password: string, email: string): Promise<string | undefined> {
  const text = canonical(password)
  const length = [...text].length
  if (length < shortestPassword) return `The password must have at least ${shortestPassword} characters.`
  if (length > longestPassword) return `The password must have at most ${longestPassword} characters.`
  const plain = text.toLowerCase()
  const guess = [email, email.slice(0, email.lastIndexOf('@'))].some((part) => part.toLowerCase() === plain)
  if (guess) return 'The password must not be the e-mail address.'
  if (new Set(plain).size < 4 || (await commonPasswords()).has(plain))
    return 'This password is one of the first that anybody would guess: choose another.'
  return undefined
}

let common: Promise<ReadonlySet<string>> | undefined

function commonPasswords(): Promise<ReadonlySet<string>> {
  common ??= import('./common-passwords.json').then((list) => new Set(list.default))
  return common
}
