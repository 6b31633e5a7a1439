// Web searches that providers run themselves: what a request may ask for, and what each provider takes.

import type { WebSearchDeclaration } from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'

/** Whether a provider's own search can serve a request. */
export type OwnSearch =
  /** `billed`: each search has a fee, or the request has one, whatever it searches. */
  | {
      readonly kind: 'able'
      readonly billed: 'search' | 'request'
      /** A turn of many searches pauses, and goes on when it is sent back. */
      readonly pauses?: true
      /** It takes no functions beside it, not the gateway's either. */
      readonly alone?: true
    }
  /** `why` completes "The provider's own search …", for people. */
  | { readonly kind: 'unable'; readonly why: string }

/** What must be honoured or refused; how much of the pages is read is a hint. */
type Wish =
  'allowed_domains' | 'blocked_domains' | 'paths' | 'both lists' | 'user_location' | 'recency' | 'max_uses'

const has: Readonly<Record<Wish, (search: WebSearchDeclaration) => boolean>> = {
  allowed_domains: ({ allowedDomains }) => allowedDomains.length > 0,
  blocked_domains: ({ blockedDomains }) => blockedDomains.length > 0,
  'both lists': ({ allowedDomains, blockedDomains }) =>
    allowedDomains.length > 0 && blockedDomains.length > 0,
  paths: ({ allowedDomains, blockedDomains }) =>
    [...allowedDomains, ...blockedDomains].some((domain) => /[/*]/.test(bareDomain(domain))),
  user_location: ({ location }) => location !== undefined,
  recency: ({ rest }) => rest['recency'] != null,
  max_uses: ({ maxUses }) => maxUses !== undefined,
}

const inWords: Readonly<Record<Wish, string>> = {
  allowed_domains: 'cannot be kept to allowed domains',
  blocked_domains: 'cannot be kept from blocked domains',
  'both lists': 'takes allowed or blocked domains, not both',
  paths: 'takes domains, not paths',
  user_location: 'cannot be told where the user is',
  recency: 'cannot be kept to recent pages',
  max_uses: 'cannot be bounded',
}

/** Able where a search that honours these wishes, and no others, is all the request asks for. */
export function ableTo(
  search: WebSearchDeclaration,
  billed: 'search' | 'request',
  honoured: readonly Wish[],
): OwnSearch {
  const all = Object.keys(has) as Wish[]
  const missed = all.find((wish) => !honoured.includes(wish) && has[wish](search))
  return missed === undefined ? { kind: 'able', billed } : { kind: 'unable', why: inWords[missed] }
}

export function unable(why: string): OwnSearch {
  return { kind: 'unable', why }
}

/** `user_location` as OpenAI and Anthropic write it; no field where the request names no place. */
export function approximateLocation({ location }: WebSearchDeclaration): JsonObject {
  return location === undefined ? {} : { user_location: { type: 'approximate', ...location } }
}

/** A domain without a scheme, `*.` and a slash at its end: as providers want them. */
export function bareDomain(domain: string): string {
  return domain
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/^\*\./, '')
    .replace(/\/$/, '')
}
