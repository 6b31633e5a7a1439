// Bedrock's Converse protocol, spoken to a provider.

import { ignoredByClaude } from '../claude/models.ts'
import { type BedrockQuirks, defaultQuirks, familyOf, lower } from './lower.ts'
import type { Outbound } from '../protocol.ts'
import { faultOf } from '../faults.ts'
import { parserWithClientNames, withClientNames } from '../names.ts'
import { parserOf, parseWhole } from './parse.ts'

export const outbound: Outbound<BedrockQuirks> = {
  id: 'bedrock-converse',
  framing: 'aws-event-stream',
  auth: { kind: 'aws', service: 'bedrock' },
  defaultQuirks,
  inlinesUrls: true,
  lower,
  whole: (body, target) => withClientNames(parseWhole(body, target.model), target),
  parser: (target) => parserWithClientNames(parserOf(target.model), target),
  fault: faultOf,
  ignores: ({ model, reasoning }) => [
    ...ignoredByClaude(model, reasoning),
    ...(familyOf(model).forces === 'nothing' ? ['tool_choice'] : []),
  ],
  embeddings: undefined,
}
