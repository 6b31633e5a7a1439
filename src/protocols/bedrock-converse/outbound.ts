// Bedrock's Converse protocol, spoken to a provider.

import type { Outbound, Target } from '../protocol.ts'
import { faultOf } from './fault.ts'
import { lower } from './lower.ts'
import { type ParseContext, parserOf, parseWhole } from './stream.ts'
import { type BedrockQuirks, defaultQuirks } from './schema.ts'

export const outbound: Outbound<BedrockQuirks> = {
  id: 'bedrock-converse',
  framing: 'aws-event-stream',
  defaultQuirks,
  inlinesUrls: true,
  lower,
  whole: (body, target) => parseWhole(body, contextOf(target)),
  parser: (target) => parserOf(contextOf(target)),
  fault: faultOf,
}

function contextOf({ model, toolNames }: Target<BedrockQuirks>): ParseContext {
  return { model, toolNames: toolNames ?? {} }
}
