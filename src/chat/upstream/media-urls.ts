// Checks addresses in a request, whoever is going to fetch them: a provider in the same network could reach for the
// caller what the gateway itself refuses to reach.

import type { JsonObject } from '../../conversation/request.ts'
import { checkUrl } from '../../egress/destination.ts'
import {
  type AddressVisitor,
  type FoundAddress,
  type Parts,
  visitAddresses,
} from '../../protocols/request/addresses.ts'
import { noWarnings } from '../../protocols/lowered-request.ts'
import type { RequestAddress, Warning } from '../../protocols/protocol.ts'

export interface CheckedAddresses {
  readonly addresses: readonly RequestAddress[]
  /** What was removed from the body. */
  readonly warnings: readonly Warning[]
}

/**
 * Normalises every address in a body, so that all parsers read it alike, and removes unknown fields that contain an
 * address or name a destination. Changes the body. Throws `url_not_allowed`, naming the field, for an address that
 * users may not reach.
 */
export function checkAddresses(
  body: JsonObject,
  places: Parts,
  allowHosts: readonly string[],
): CheckedAddresses {
  const check = new AddressCheck(allowHosts)
  visitAddresses(body, places, check)
  return check
}

const noAddresses: readonly RequestAddress[] = []

/** Most bodies hold no address. */
class AddressCheck implements AddressVisitor, CheckedAddresses {
  #addresses: RequestAddress[] | undefined
  #warnings: Warning[] | undefined
  readonly #allowHosts: readonly string[]

  constructor(allowHosts: readonly string[]) {
    this.#allowHosts = allowHosts
  }

  get addresses(): readonly RequestAddress[] {
    return this.#addresses ?? noAddresses
  }

  get warnings(): readonly Warning[] {
    return this.#warnings ?? noWarnings
  }

  found({ text, param, replace }: FoundAddress): void {
    const url = checkUrl(text, { allowHosts: this.#allowHosts, param })
    // Parsers may disagree on the host of the original: `http://good.example\@127.0.0.1/`.
    if (url.href !== text) replace(url.href)
    // A file of Cloud Storage is not to be fetched: only Google reads it.
    if (url.protocol === 'gs:') return
    ;(this.#addresses ??= []).push({ url: url.href, param })
  }

  dropped(param: string): void {
    const message = 'It was dropped: it names an address, and no provider is known to read one here.'
    ;(this.#warnings ??= []).push({ param, message })
  }
}
