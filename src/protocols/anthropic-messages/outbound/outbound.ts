// Anthropic's Messages protocol, spoken to a provider.

import { ignoredByClaude, prefillOfClaude } from '../../claude/models.ts'
import { withinLimits } from '../../names.ts'
import type { Outbound } from '../../protocol.ts'
import { passthrough } from '../passthrough.ts'
import { faultOf, parseWhole, streamParser } from './parse.ts'
import { lower, lowerSteps } from './lower.ts'
import { type AnthropicQuirks, defaultQuirks } from './quirks.ts'
import { ownSearch } from '../../claude/tools.ts'

export const outbound: Outbound<AnthropicQuirks> = withinLimits<AnthropicQuirks>({
  id: 'anthropic-messages',
  framing: 'sse',
  framingFor: ({ quirks }) => quirks.framing,
  auth: { kind: 'header', header: 'x-api-key' },
  defaultQuirks,
  warmsCache: true,
  inlinesUrls: true,
  readsUrl: (url, { quirks }) => quirks.readsUrls && /^https:/i.test(url),
  lower,
  lowerSteps,
  ownSearch,
  prefill: ({ model, quirks }) => prefillOfClaude(model, quirks.traits),
  whole: parseWhole,
  parser: ({ quirks, document }) => streamParser(quirks.framing, document),
  fault: faultOf,
  ignores: ({ model, reasoning }) => ignoredByClaude(model, reasoning),
  embeddings: undefined,
  passthrough,
})
