// The documentation of decisions.

import { decision, decisionRequest } from '../../protocols/decisions/decisions.ts'
import { ofPaidChat } from '../docs/openapi-errors.ts'
import { callHeaders, json, type Operation, schemaOf } from '../docs/operation.ts'

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
