// Beta features of Anthropic, asked for by a header.

import type { Json } from '../../conversation/request.ts'

/** The header that asks for these features, and for those that a client asks for in `betas`. */
export function betaHeader(features: readonly string[], asked: Json | undefined): Record<string, string> {
  const clients = Array.isArray(asked) ? asked.filter((beta) => typeof beta === 'string') : []
  const betas = [...new Set([...features, ...clients])]
  return betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }
}
