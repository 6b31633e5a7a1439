// Beta features of Anthropic, asked for by a header.

import type { Json } from '../../../conversation/request.ts'

/** What a feature can be called. A line end, or a letter that no header takes, would make the request impossible to send. */
const name = /^[\w.:-]{1,128}$/
/** More than any client asks for; providers refuse headers of more than a few kilobytes. */
const mostFeatures = 48

/** The header that asks for these features, and for those that a client asks for in `betas`. */
export function betaHeader(features: readonly string[], asked: Json | undefined): Record<string, string> {
  const clients = Array.isArray(asked)
    ? asked.filter((beta) => typeof beta === 'string' && name.test(beta))
    : []
  const betas = [...new Set([...features, ...clients])].slice(0, mostFeatures)
  return betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }
}
