// Checks addresses in a request, whoever is going to fetch them: a provider in the same network could reach for the
// caller what the gateway itself refuses to reach.

import type { JsonObject } from '../../conversation/request.ts'
import { checkUrl } from '../../egress/destination.ts'
import { GatewayError } from '../../errors.ts'
import {
  type AddressVisitor,
  type FoundAddress,
  type Parts,
  visitAddresses,
} from '../../protocols/request/addresses.ts'
import { noWarnings } from '../../protocols/lowered-request.ts'
import type { RequestAddress, Warning } from '../../protocols/protocol.ts'

export interface AddressRules {
  /** Private `host` or `host:port` entries that may be reached, and buckets as `gs://bucket`. */
  readonly allowHosts: readonly string[]
  /** Whether files may be named that are stored at a provider: it reads them with the rights of the operator. */
  readonly providerFiles: boolean
}

export interface CheckedAddresses {
  readonly addresses: readonly RequestAddress[]
  /** What was removed from the body. */
  readonly warnings: readonly Warning[]
}

/**
 * Normalises every address in a body, so that all parsers read it alike, and removes unknown fields that contain an
 * address or name a destination. Changes the body. Throws, naming the field, `url_not_allowed` for an address that
 * users may not reach, and `unsupported_parameter` for a file stored at a provider, unless the rules allow those.
 */
export function checkAddresses(body: JsonObject, places: Parts, rules: AddressRules): CheckedAddresses {
  const check = new AddressCheck(rules)
  visitAddresses(body, places, check)
  return check
}

/** Google's Files API: Gemini reads what was uploaded there with the operator's key. */
const fileHost = /^generativelanguage\.googleapis\.com\.?$/

const noAddresses: readonly RequestAddress[] = []

/** Most bodies hold no address. */
class AddressCheck implements AddressVisitor, CheckedAddresses {
  #addresses: RequestAddress[] | undefined
  #warnings: Warning[] | undefined
  readonly #rules: AddressRules

  constructor(rules: AddressRules) {
    this.#rules = rules
  }

  get addresses(): readonly RequestAddress[] {
    return this.#addresses ?? noAddresses
  }

  get warnings(): readonly Warning[] {
    return this.#warnings ?? noWarnings
  }

  onFound({ text, param, replace }: FoundAddress): void {
    const url = checkUrl(text, { allowHosts: this.#rules.allowHosts, param })
    if (fileHost.test(url.hostname)) this.onKept(param)
    // Parsers may disagree on the host of the original: `http://good.example\@127.0.0.1/`.
    if (url.href !== text) replace(url.href)
    // A file of Cloud Storage is not to be fetched: only Google reads it.
    if (url.protocol === 'gs:') return
    ;(this.#addresses ??= []).push({ url: url.href, param })
  }

  /** Ids do not tell whose they are: everybody's, and the operator's own, are in one account at the provider. */
  onKept(param: string): void {
    if (this.#rules.providerFiles) return
    const message =
      `'${param}' names a file that is stored at a provider, which reads it with the operator's rights, whoever ` +
      'uploaded it. Send its content instead, or a public URL; the operator can allow such files ' +
      '(egress.provider_files).'
    throw new GatewayError('unsupported_parameter', { message, param })
  }

  onDropped(param: string): void {
    const message = 'It was dropped: it names an address, and no provider is known to read one here.'
    ;(this.#warnings ??= []).push({ param, message })
  }
}
