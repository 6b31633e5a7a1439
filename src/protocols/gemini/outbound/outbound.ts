// Speaking generateContent to Gemini and Vertex.

import { embeddings } from '../embeddings.ts'
import type { Outbound } from '../../protocol.ts'
import { parserWithClientNames, withClientNames } from '../../wire-names.ts'
import { faultOf } from './fault.ts'
import { readsUrl } from './media.ts'
import { parserOf, wholeAnswer } from './stream.ts'
import { defaultQuirks, type GeminiQuirks, traitsFor } from './quirks.ts'
import { lower } from './lower.ts'
import { ownSearch } from './web-search.ts'

export const outbound: Outbound<GeminiQuirks> = {
  id: 'gemini',
  framing: 'sse',
  auth: { kind: 'header', header: 'x-goog-api-key' },
  defaultQuirks,
  inlinesUrls: true,
  readsUrl: (url, target) => readsUrl(url, target.quirks.readsUrls),
  lower,
  ownSearch,
  whole: (body, target) => withClientNames(wholeAnswer(body, traitsFor(target)), target),
  parser: (target, choices = 1) => parserWithClientNames(parserOf(traitsFor(target), choices), target),
  fault: (status, headers, body) => faultOf(status, headers, body),
  ignores: () => [],
  embeddings,
}
