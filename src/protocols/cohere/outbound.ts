// Cohere's chat protocol (version 2), spoken to a provider.

import { embeddings } from './embeddings.ts'
import type { Outbound } from '../protocol.ts'
import { faultOf } from './fault.ts'
import { lower } from './lower.ts'
import { parseWhole, streamParser } from './stream.ts'
import { type CohereQuirks, defaultQuirks } from './schema.ts'

export const outbound: Outbound<CohereQuirks> = {
  id: 'cohere',
  framing: 'sse',
  auth: { kind: 'bearer' },
  defaultQuirks,
  inlinesUrls: false,
  textResults: true,
  lower,
  whole: parseWhole,
  parser: streamParser,
  fault: faultOf,
  ignores: () => [],
  embeddings,
}
