// Bedrock's Converse protocol, spoken to a provider.

import { ignoredByClaude, prefillOfClaude } from '../claude/models.ts'
import { type BedrockQuirks, defaultQuirks, familyOf, lower, lowerSteps } from './lower.ts'
import type { Outbound } from '../protocol.ts'
import { faultOf } from '../faults.ts'
import { withinLimits } from '../names.ts'
import { parserOf, parseWhole } from './parse.ts'

export const outbound: Outbound<BedrockQuirks> = withinLimits<BedrockQuirks>({
  id: 'bedrock-converse',
  framing: 'aws-event-stream',
  auth: { kind: 'aws', service: 'bedrock' },
  defaultQuirks,
  inlinesUrls: true,
  lower,
  lowerSteps,
  prefill: ({ model }) => prefillOfClaude(model),
  whole: (body, target) => parseWhole(body, target.model),
  parser: (target) => parserOf(target.model),
  fault: faultOf,
  ignores: ({ model, reasoning }) => [
    ...ignoredByClaude(model, reasoning),
    ...(familyOf(model).forces === 'nothing' ? ['tool_choice'] : []),
  ],
  embeddings: undefined,
})
