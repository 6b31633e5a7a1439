// Limits of events by name, counted in this process or by all gateways together. Names are forgotten when their window
// ends, in a process also the least recently used when there are too many.

import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { atMost, type Awaitable } from '../../async/async.ts'
import { GatewayError, type RefusedCredential } from '../../errors/errors.ts'

// The network of an address, as limits count it: a customer's prefix, not one of its many addresses.

/** `203.0.113.0/24`, `2001:db8:1::/56`; anything but an address counts as a network of its own. */
export function networkOf(address: string, bitsOfIPv6 = 56): string {
  const parsed = parsedAddress(address)
  if (!parsed) return 'unknown'
  const bits = parsed.kind() === 'ipv4' ? 24 : bitsOfIPv6
  const bytes = parsed.toByteArray().map((byte, at) => (at * 8 < bits ? byte : 0))
  return `${ipaddr.fromByteArray(bytes).toString()}/${bits}`
}

/** Whether an address is in one of these CIDR ranges or single addresses. A short form contains nothing. */
export function isWithin(address: string, ranges: readonly string[]): boolean {
  const parsed = parsedAddress(address)
  return parsed !== undefined && ranges.some((range) => isNetwork(range) && matches(parsed, range))
}

/** Throws `network_not_allowed` for a key that is used outside of its networks; null allows any. `credential` is its own. */
export function requireWithin(
  address: string,
  networks: readonly string[] | null,
  credential: RefusedCredential,
): void {
  if (networks === null || isWithin(address, networks)) return
  // Older versions stored short forms. What was meant is not guessed: 192.168/16 was read as 192.0.0.168/16.
  if (networks.every(isNetwork)) throw new GatewayError('network_not_allowed', { credential })
  throw new GatewayError('network_not_allowed', {
    credential,
    message:
      'A network of this key is a short form such as 10/8, which allows nothing: write it as 10.0.0.0/8.',
  })
}

/** Whether a text is an address or a CIDR range. Short forms are neither: `10/8` would be read as 0.0.0.10/8. */
export function isNetwork(text: string): boolean {
  const { IPv4, IPv6 } = ipaddr
  const isIPv4 = IPv4.isValidFourPartDecimal(text) || IPv4.isValidCIDRFourPartDecimal(text)
  return isIPv4 || IPv6.isValid(text) || IPv6.isValidCIDR(text)
}

function matches(address: ipaddr.IPv4 | ipaddr.IPv6, range: string): boolean {
  if (ipaddr.isValidCIDR(range)) {
    const [network, bits] = rangeOf(range)
    return network.kind() === address.kind() && address.match([network, bits])
  }
  const single = parsedAddress(range)
  return single !== undefined && single.toNormalizedString() === address.toNormalizedString()
}

/** Parses a range; an IPv4 range written as IPv6 (`::ffff:10.0.0.0/104`) becomes IPv4. */
function rangeOf(range: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  const [network, bits] = ipaddr.parseCIDR(range)
  const isMapped = network instanceof ipaddr.IPv6 && network.isIPv4MappedAddress() && bits >= mappedBits
  return isMapped ? [network.toIPv4Address(), bits - mappedBits] : [network, bits]
}

/** What comes before the IPv4 address in an IPv6 address that stands for one. */
const mappedBits = 96

/** Parses an address; an IPv4 address written as IPv6 (`::ffff:10.0.0.1`) becomes IPv4. */
function parsedAddress(address: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  return ipaddr.isValid(address) ? ipaddr.process(address) : undefined
}

const rememberedNames = 100_000

/** How often something has happened, and since when or when last: milliseconds since 1970. */
export interface AttemptCount {
  readonly count: number
  readonly at: number
}

/** The count of a name from now on, null to forget it; and what whoever asked is told. */
type Recount<T> = readonly [next: AttemptCount | null, told: T]

export interface AttemptCounts {
  /**
   * Changes the count of a name, as if nobody else did so meanwhile. `change` may be asked again. May reject with
   * `store_unavailable`.
   */
  change<T>(kind: string, name: string, change: (counted: AttemptCount | null) => Recount<T>): Awaitable<T>
}

/** A bucket of a rate that all gateways share, and what one of them has spent of it since it last said so. */
export interface SharedBucket {
  readonly name: string
  readonly perMinute: number
  readonly spent: number
}

export interface SharedRates {
  /** Takes from each bucket what was spent of it, and resolves with what is left of them, by name. Rejects with `store_unavailable`. */
  exchange(buckets: readonly SharedBucket[]): Promise<ReadonlyMap<string, number>>
}

/** Calls of an account, of each kind. */
export interface CallsElsewhere {
  readonly real: number
  readonly simulated: number
}

export interface SharedPlaces {
  /** The calls of an account that run at other gateways, as far as their credit is held. Rejects with `store_unavailable`. */
  callsElsewhere(account: string): Promise<CallsElsewhere>
}

export interface SharedSightings {
  /** Notes that something was seen with a name at a moment. Resolves with how many names it was seen with since. Rejects with `store_unavailable`. */
  see(what: string, name: string, at: number, since: number): Promise<number>
  /** Those of the names that it was seen with since. Rejects with `store_unavailable`. */
  seenOf(what: string, names: readonly string[], since: number): Promise<readonly string[]>
  /** Forgets with which names it was seen. */
  forgetSeen(what: string): Promise<void>
}

/** In this process. */
class LocalCounts implements AttemptCounts {
  /** By kind: who makes up many names of one kind drives out none of another. */
  readonly #counts = new Map<string, LRUCache<string, AttemptCount>>()

  change<T>(kind: string, name: string, change: (counted: AttemptCount | null) => Recount<T>): T {
    let counts = this.#counts.get(kind)
    if (!counts)
      this.#counts.set(kind, (counts = new LRUCache<string, AttemptCount>(atMost(rememberedNames))))
    const [next, told] = change(counts.get(name) ?? null)
    if (next === null) counts.delete(name)
    else counts.set(name, next)
    return told
  }
}

/** A number of events per window, which begins with the first. */
class Window {
  readonly #most: number
  readonly #ms: number
  readonly #clock: () => number

  constructor(most: number, ms: number, clock: () => number) {
    this.#most = most
    this.#ms = ms
    this.#clock = clock
  }

  /** AttemptCounts an event, or says how long to wait instead, milliseconds; 0 if it was counted. */
  take(counted: AttemptCount | null): Recount<number> {
    const open = this.#open(counted)
    if (!open) return [{ count: 1, at: this.#clock() }, 0]
    if (open.count >= this.#most) return [open, this.waitMs(open)]
    return [{ count: open.count + 1, at: open.at }, 0]
  }

  /** How long until another event may be counted, milliseconds. */
  waitMs(counted: AttemptCount | null): number {
    const open = this.#open(counted)
    return open && open.count >= this.#most ? open.at + this.#ms - this.#clock() : 0
  }

  #open(counted: AttemptCount | null): AttemptCount | null {
    return counted && isRecent(this.#clock() - counted.at, this.#ms) ? counted : null
  }
}

/** Takes back a counted event. */
function giveBack(counted: AttemptCount | null): Recount<void> {
  if (!counted || counted.count === 0) return [counted, undefined]
  return [{ count: counted.count - 1, at: counted.at }, undefined]
}

/** A number of events per window and name, of this process alone. */
export class WindowLimit {
  readonly #window: Window
  readonly #counts = new LRUCache<string, AttemptCount>(atMost(rememberedNames))

  /** `clock` gives milliseconds. */
  constructor(most: number, ms: number, clock: () => number) {
    this.#window = new Window(most, ms, clock)
  }

  /** AttemptCounts an event, or returns how long to wait instead, milliseconds; 0 if it was counted. */
  take(name: string): number {
    const [next, waitMs] = this.#window.take(this.#counts.get(name) ?? null)
    if (next) this.#counts.set(name, next)
    return waitMs
  }

  /** How long until another event may be counted, milliseconds. */
  waitMs(name: string): number {
    return this.#window.waitMs(this.#counts.get(name) ?? null)
  }
}

/** A clock that was set back makes a window begin later than now: that is over, or nobody could enter for so long. */
function isRecent(ageMs: number, windowMs: number): boolean {
  return ageMs >= 0 && ageMs < windowMs
}

const minute = 60_000
const failureWindowMs = 15 * minute
const firstDelayMs = 15_000
/** No limit counts anything for longer, milliseconds: counts that are older may be forgotten. */
export const longestWindowMs = 60 * minute

/**
 * AttemptCounts an attempt as a failure, or says how long to wait instead, milliseconds. Of consecutive failures the first
 * `free` have no wait, then it doubles each time.
 */
function tryAgain(counted: AttemptCount | null, free: number, now: number): Recount<number> {
  const open = counted && isRecent(now - counted.at, failureWindowMs) ? counted : null
  if (open && open.count >= free) {
    const delay = Math.min(failureWindowMs, firstDelayMs * 2 ** (open.count - free))
    if (open.at + delay > now) return [open, open.at + delay - now]
  }
  return [{ count: (open?.count ?? 0) + 1, at: now }, 0]
}

export interface AttemptLimits {
  readonly signInFailures: number
  readonly signInFailuresPerNetwork: number
  readonly signUpsPerNetwork: number
  readonly signUps: number
  readonly mailsPerAddress: number
}

/** In ten minutes. */
const challengesPerNetwork = 100
/** In an hour. */
const unknownAddressesPerAccount = 20

/** The limits of sign-in and sign-up. Each rejects with `rate_limit_exceeded` and the time to wait, or `store_unavailable`. */
export class SignInLimits {
  readonly #freeFailures: number
  readonly #clock: () => number
  readonly #counts: AttemptCounts
  readonly #perNetwork: Window
  readonly #signUpsPerNetwork: Window
  readonly #signUps: Window
  readonly #mails: Window
  readonly #challenges: Window
  readonly #unknownAddresses: Window

  /** `counts` are those of all gateways, where there are several. */
  constructor(limits: AttemptLimits, clock: () => number, counts: AttemptCounts = new LocalCounts()) {
    this.#freeFailures = limits.signInFailures
    this.#clock = clock
    this.#counts = counts
    this.#perNetwork = new Window(limits.signInFailuresPerNetwork, failureWindowMs, clock)
    this.#signUpsPerNetwork = new Window(limits.signUpsPerNetwork, longestWindowMs, clock)
    this.#signUps = new Window(limits.signUps, 10 * minute, clock)
    this.#challenges = new Window(challengesPerNetwork, 10 * minute, clock)
    this.#unknownAddresses = new Window(unknownAddressesPerAccount, longestWindowMs, clock)
    this.#mails = new Window(limits.mailsPerAddress, longestWindowMs, clock)
  }

  /**
   * AttemptCounts an attempt as a failure until it succeeds or turns out not to have been tried: otherwise a thousand
   * concurrent attempts could begin before the first one fails.
   */
  async signIn(
    address: string,
    network: string,
  ): Promise<{ succeed(): Promise<void>; undo(): Promise<void> }> {
    const counts = this.#counts
    const name = `${address} ${network}`
    const again = (counted: AttemptCount | null) => tryAgain(counted, this.#freeFailures, this.#clock())
    refuseFor(await counts.change('failure', name, again), 'Too many wrong passwords for this address.')
    const wait = await this.#take('failure-network', network, this.#perNetwork)
    if (wait > 0) await counts.change('failure', name, giveBack)
    refuseFor(wait, 'Too many wrong passwords from this network.')
    return {
      succeed: async () => {
        await counts.change('failure', name, forget)
        await counts.change('failure-network', network, giveBack)
      },
      undo: async () => {
        await counts.change('failure', name, giveBack)
        await counts.change('failure-network', network, giveBack)
      },
    }
  }

  async signUp(network: string): Promise<void> {
    const ofNetwork = await this.#take('sign-up-network', network, this.#signUpsPerNetwork)
    refuseFor(ofNetwork, 'Too many accounts were opened from this network.')
    const wait = await this.#take('sign-up', '', this.#signUps)
    if (wait > 0) await this.#counts.change('sign-up-network', network, giveBack)
    refuseFor(wait, 'Too many accounts are being opened at this moment.')
  }

  /** Limits the challenges issued to visitors who have not signed in. */
  async challenge(network: string): Promise<void> {
    const wait = await this.#take('challenge', network, this.#challenges)
    refuseFor(wait, 'Too many sign-ins were begun from this network.')
  }

  /** Limits the addresses without an account that somebody has tried to add to a group. */
  async unknownAddress(account: string): Promise<void> {
    const wait = await this.#take('unknown-address', account, this.#unknownAddresses)
    refuseFor(wait, 'Too many addresses without an account were tried.')
  }

  /** Whether a mail to an address may be sent now. */
  async mail(address: string): Promise<boolean> {
    return (await this.#take('mail', address, this.#mails)) === 0
  }

  #take(kind: string, name: string, window: Window): Awaitable<number> {
    return this.#counts.change(kind, name, (counted) => window.take(counted))
  }
}

const forget = (): Recount<void> => [null, undefined]

function refuseFor(retryAfterMs: number, message: string): void {
  if (retryAfterMs > 0) throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
}
