// Chat completions, spoken to a provider. What its dialect is, its row says: see quirks.ts.

import { embeddings } from '../../openai/embeddings.ts'
import { nineLetters, withinLimits } from '../../names.ts'
import type { Outbound } from '../../protocol.ts'
import { passthrough } from '../passthrough/passthrough.ts'
import { plainWhole, streamParser, wholeEvents } from './parse.ts'
import { defaultQuirks, ignoredFields, type OpenAIChatQuirks } from './quirks.ts'
import { faultOf } from '../../openai/fault.ts'
import { lower, ownSearch, prefillOf } from './lower.ts'

export const outbound: Outbound<OpenAIChatQuirks> = withinLimits<OpenAIChatQuirks>(
  {
    id: 'openai-chat',
    framing: 'sse',
    auth: { kind: 'bearer' },
    defaultQuirks,
    inlinesUrls: false,
    lower,
    ownSearch,
    prefill: prefillOf,
    whole: (body, target) => wholeEvents(body, target.quirks),
    plainWhole: (body, target) => plainWhole(body, target.quirks),
    parser: (target, choices = 1) => streamParser(target, choices),
    fault: (status, headers, body) => faultOf(status, headers, body),
    ignores: ({ quirks, reasoning }) => ignoredFields(quirks, reasoning),
    embeddings,
    passthrough,
  },
  ({ quirks }, usual) => (quirks.toolCallIds === 'nine' ? { ...usual, calls: nineLetters } : usual),
)
