// Anthropic's Messages protocol, spoken to a provider.

import type { Outbound } from '../protocol.ts'
import { faultOf } from './fault.ts'
import { lower } from './lower.ts'
import { parser, parseWhole } from './parse.ts'
import { type AnthropicQuirks, defaultQuirks } from './schema.ts'

export const outbound: Outbound<AnthropicQuirks> = {
  id: 'anthropic-messages',
  framing: 'sse',
  defaultQuirks,
  inlinesUrls: false,
  lower,
  whole: parseWhole,
  parser: () => parser,
  fault: faultOf,
}
