// The request of a provider that speaks the Responses protocol.

import type { ChatRequest } from '../../../conversation/request.ts'
import type { LoweredRequest, Target } from '../../protocol.ts'
import { type ResponsesQuirks } from './quirks.ts'
import { lowerInput } from './input.ts'
import {
  lowerBound,
  lowerInclude,
  lowerReasoning,
  lowerRest,
  lowerSampling,
  lowerText,
  lowerTools,
  refuseUnsupported,
} from './parameters.ts'

export function lower(request: ChatRequest, asked: Target<ResponsesQuirks>): LoweredRequest {
  const { quirks } = asked
  const target = { ...asked, reasoning: asked.reasoning || quirks.alwaysReasons }
  refuseUnsupported(request, target)
  const conversation = lowerInput(request.messages, { quirks, provider: target.provider })
  const sampling = lowerSampling(request, target)
  const bound = lowerBound(request, target)
  const reasoning = lowerReasoning(request, target)
  const rest = lowerRest(request.rest, target)
  return {
    path: '/responses',
    headers: {},
    body: {
      ...rest.fields,
      ...sampling.fields,
      ...reasoning.fields,
      ...lowerText(request, target),
      ...lowerTools(request, quirks),
      ...lowerInclude(request, target),
      ...quirks.bodyExtras,
      ...bound.fields,
      model: target.model,
      input: conversation.input,
      store: false,
      stream: request.stream,
    },
    warnings: [
      ...conversation.warnings,
      ...sampling.warnings,
      ...bound.warnings,
      ...reasoning.warnings,
      ...rest.warnings,
    ],
  }
}
