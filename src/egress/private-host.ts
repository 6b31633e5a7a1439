// Whether a server runs inside a private network, where names may mean what they mean nowhere else.

import { LRUCache } from 'lru-cache'
import { isAddress, isPublicAddress, withoutBrackets } from './address.ts'
import { type Resolve, systemResolve } from './destination.ts'

/** How long what a resolver said of a host is believed, milliseconds. */
const believedMs = 60_000

/** Returns a function that checks whether a URL's host is private. A name that does not resolve counts as private. */
export function privateHosts(resolve: Resolve = systemResolve): (url: string) => Promise<boolean> {
  const known = new LRUCache<string, Promise<boolean>>({ max: 500, ttl: believedMs })
  return (text) => {
    const host = withoutBrackets(URL.parse(text)?.hostname ?? '')
    if (isAddress(host)) return Promise.resolve(!isPublicAddress(host))
    // Built-in providers have no host.
    if (host === '') return Promise.resolve(true)
    const before = known.get(host)
    if (before) return before
    const answer = resolve(host).then(
      (addresses) => addresses.length === 0 || !addresses.every(isPublicAddress),
      () => {
        // The resolver's trouble, or our own, may be over with the next call.
        known.delete(host)
        return true
      },
    )
    known.set(host, answer)
    return answer
  }
}
