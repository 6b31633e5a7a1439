// Anthropic's beta features, requested by a header.

import type { Json } from '../../../conversation/request.ts'

/** Valid feature names. A line break or an illegal character would make the request impossible to send. */
const name = /^[\w.:-]{1,128}$/
/** More than clients use; providers refuse headers of more than a few kilobytes. */
const mostFeatures = 48

/** The header for these features and those in the client's `betas`. */
export function betaHeader(features: readonly string[], asked: Json | undefined): Record<string, string> {
  const clients = Array.isArray(asked)
    ? asked.filter((beta) => typeof beta === 'string' && name.test(beta))
    : []
  const betas = [...new Set([...features, ...clients])].slice(0, mostFeatures)
  return betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }
}
