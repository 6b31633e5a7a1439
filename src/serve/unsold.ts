// Entries under `models` that cannot be called, with the reason.

import type { Catalog } from '../catalog/catalog.ts'
import type { Config } from '../config.ts'
import type { ConfigWarning } from '../config/read/draft.ts'
import { GatewayError } from '../errors.ts'

/** A warning for each entry that is not sold: it has no price, or its provider does not exist. */
export function unsoldModels(config: Config, catalog: Catalog): ConfigWarning[] {
  const ids = [...new Set(config.models.map(({ id }) => id))]
  return ids.flatMap((id) => {
    try {
      catalog.resolve(id)
      return []
    } catch (thrown) {
      if (!(thrown instanceof GatewayError)) throw thrown
      return [{ name: `models: ${id}`, problem: `cannot be called: ${reasonIn(thrown)}` }]
    }
  })
}

function reasonIn({ message, details }: GatewayError): string {
  const reason = details.metadata?.['reason']
  if (reason === 'it has no price') return 'it has no price (price: free gives it away)'
  return typeof reason === 'string' ? reason : message
}
