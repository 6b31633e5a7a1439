// POST /v1/decisions

import { decide } from '../../chat/complete.ts'
import { checkAddresses } from '../../chat/upstream/lower.ts'
import { decision, decisionRequest, parseDecision } from '../../protocols/decisions/decisions.ts'
import { addresses as places } from '../../protocols/openai-responses/inbound/read.ts'
import { type PaidRun, refuseDropped, servePaid, withTags } from '../intake/paid/serve-paid.ts'
import { readCall } from '../intake/read-body.ts'
import type { ServingParts } from '../parts.ts'
import type { RouteCall } from '../route.ts'
import { callHeaders, json, ofPaidChat, type Operation, schemaOf } from '../docs/operation.ts'

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function serveDecision(parts: ServingParts, call: RouteCall): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = call
  const { caller, json, bytes: bodyBytes } = await readCall(parts, call)
  const checked = await parts.scheduler.run(() => checkAddresses(json, places, parts.addressRules))
  const asked = await parts.scheduler.run(() => parseDecision(json))
  const { envelope, body, promptParts } = asked
  const warnings = [...checked.warnings, ...asked.warnings]
  refuseDropped(envelope, warnings)
  await Promise.all(checked.addresses.map((address) => parts.chat.media.check(address)))
  const tagged = withTags({ envelope, body, promptParts, warnings }, { request, json, caller })
  const paid = { request, caller, json, requestId, call: { ...tagged, arrivedAt } }
  const run: PaidRun = (stopping, signal, keeper) =>
    decide(parts.chat, {
      caller,
      ...tagged,
      decision: body,
      bodyBytes,
      requestId,
      stopping,
      signal,
      keeper,
      arrivedAt,
    })
  return servePaid(parts, paid, run)
}

// The documentation of decisions.

const requests = {
  typed: {
    summary: 'Three questions about one input',
    value: {
      model: 'sim/echo',
      input: 'The river is high today.',
      questions: [
        { type: 'predicate', name: 'flood', instructions: 'Is there a risk of a flood?' },
        {
          type: 'choice',
          name: 'level',
          instructions: 'How high is the river?',
          choices: [{ value: 'low' }, { value: 'high' }],
        },
        {
          type: 'score',
          name: 'urgency',
          instructions: 'How urgent is it?',
          levels: [{ label: 'not' }, { label: 'somewhat' }, { label: 'very' }],
        },
      ],
    },
  },
} as const

const answer = {
  model: 'sim/echo',
  answers: [{ type: 'predicate', name: 'flood', probability: 0.8 }],
  usage: { input_tokens: 60, output_tokens: 0, total_tokens: 60, cost: 0 },
}

export const createDecision: Operation = {
  id: 'createDecision',
  tag: 'Chat',
  summary: 'Answer typed questions about an input',
  description: `OpenAI’s Decisions: each question (\`predicate\`, \`choice\` or \`score\`) is answered in its order with the probabilities of its options. Nothing is generated: the input alone is charged. Goes to providers that answer decisions (OpenAI, Fireworks); \`sim\` answers them, too.`,
  security: 'key',
  parameters: callHeaders,
  body: { 'application/json': { ...schemaOf('DecisionRequest'), examples: requests } },
  answers: { 200: { description: 'The answers.', content: json('Decision', answer) } },
  errors: [...ofPaidChat],
  schemas: { DecisionRequest: decisionRequest, Decision: decision },
}
