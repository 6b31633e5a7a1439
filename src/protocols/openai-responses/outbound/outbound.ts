// OpenAI's Responses protocol, spoken to a provider. Nothing is stored there: clients send reasoning back.

import { embeddings } from '../../embeddings/openai.ts'
import { withinLimits } from '../../names.ts'
import type { Outbound } from '../../protocol.ts'
import { defaultQuirks, ignoredFields, type ResponsesQuirks } from './quirks.ts'
import { faultOfResponses } from '../../openai/usage.ts'
import { ResponseParser, wholeEvents } from './parse.ts'
import { lower } from './lower.ts'
import { ownSearch } from './tools.ts'

export const outbound: Outbound<ResponsesQuirks> = withinLimits<ResponsesQuirks>({
  id: 'openai-responses',
  framing: 'sse',
  auth: { kind: 'bearer' },
  defaultQuirks,
  inlinesUrls: false,
  lower,
  leastOutputTokens: ({ leastOutputTokens = defaultQuirks.leastOutputTokens }) => leastOutputTokens,
  ownSearch,
  whole: (body, target) => wholeEvents(body, target),
  parser: (target) => new ResponseParser(target),
  fault: (status, headers, body) => faultOfResponses(status, headers, body),
  ignores: ({ quirks, reasoning }) => ignoredFields(quirks, reasoning),
  embeddings,
})
