// A provider's quirks in full: its protocol's defaults, and what its row says otherwise.

import type { Outbound } from '../../protocols/protocol.ts'
import type { ConfiguredProvider } from '../../providers/provider.ts'

type Quirks = Outbound['defaultQuirks']

const merged = new WeakMap<Outbound, WeakMap<object, Quirks>>()

/** The quirks that a protocol's functions are given for a provider; made once for each row and protocol. */
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
