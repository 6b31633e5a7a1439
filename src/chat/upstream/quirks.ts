// A provider's complete quirks: its protocol's defaults, overridden by its row.

import type { Outbound } from '../../protocols/protocol.ts'
import type { ConfiguredProvider } from '../../providers/provider.ts'

type Quirks = Outbound['defaultQuirks']

const merged = new WeakMap<Outbound, WeakMap<object, Quirks>>()

/** The quirks passed to a protocol's functions; cached per row and protocol. */
export function quirksFor(outbound: Outbound, { quirks }: ConfiguredProvider): Quirks {
  let ofProtocol = merged.get(outbound)
  if (!ofProtocol) merged.set(outbound, (ofProtocol = new WeakMap()))
  let full = ofProtocol.get(quirks)
  if (full === undefined) {
    full = { ...(outbound.defaultQuirks as object), ...quirks }
    ofProtocol.set(quirks, full)
  }
  return full
}
