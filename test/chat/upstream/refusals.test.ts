// What a provider's 400 says that a model does not support is learned for that model, and the request sent once more.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LearnedRefusals } from '../../../src/chat/upstream/lower.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { fault } from '../../../src/protocols/faults.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts'
import { type Lab, startLab } from '../lab.ts'

const ofThinking = (thinkingLevel: string) => ({ generationConfig: { thinkingConfig: { thinkingLevel } } })

/** What providers have said, of which request, and what is sent instead; undefined where nothing is to be learned. */
const said: readonly (readonly [string, JsonObject, JsonObject | undefined, string?])[] = [
  [
    'Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.',
    ofThinking('minimal'),
    ofThinking('low'),
  ],
  ['Thinking level is unsupported: THINKING_LEVEL_MINIMAL', ofThinking('MINIMAL'), ofThinking('LOW')],
  [
    "'minimal' is not a supported thinking level for this model. Allowed values are: high, low.",
    ofThinking('minimal'),
    ofThinking('low'),
  ],
  [
    "Unsupported value: 'reasoning.effort' does not support 'minimal' with this model. Supported values are: 'low', 'medium', and 'high'.",
    { reasoning: { effort: 'minimal', summary: 'auto' } },
    { reasoning: { effort: 'low', summary: 'auto' } },
    'reasoning.effort',
  ],
  [
    "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. Supported values are: 'low', 'medium', and 'high'.",
    { reasoning_effort: 'xhigh' },
    { reasoning_effort: 'high' },
    'reasoning_effort',
  ],
  [
    "Unsupported parameter: 'temperature' is not supported with this model.",
    { temperature: 0.5, top_p: 1 },
    { top_p: 1 },
    'temperature',
  ],
  ['`temperature` is deprecated for this model.', { temperature: 0.5, model: 'm' }, { model: 'm' }],
  [
    'thinking.type.disabled is not supported for this model.',
    { thinking: { type: 'disabled' }, model: 'm' },
    { model: 'm' },
  ],
  [
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
    { thinking: { type: 'enabled', budget_tokens: 1024 } },
    { thinking: { type: 'adaptive' } },
  ],
  [
    'tool_choice: forced tool use is not supported for this model.',
    { tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
  ],
  ['tool_choice: this is not supported for this model.', { tool_choice: { type: 'none' } }, undefined],
  // A bound, what the answer is made of, and a combination are no setting of the model.
  ['max_tokens: 9 is not supported; allowed values are: 10, 20', { max_tokens: 9 }, undefined, 'max_tokens'],
  ["Unsupported parameter: 'n' is not supported with this model.", { n: 2 }, undefined, 'n'],
  ["Unsupported parameter: 'service_tier' is not supported.", { service_tier: 'flex' }, undefined],
  ["Unsupported parameter: 'tools' is not supported.", { tools: [] }, undefined, 'tools'],
  [
    'Thinking may not be enabled when tool_choice forces tool use.',
    { tool_choice: { type: 'any' } },
    undefined,
  ],
  [
    '`temperature` and `top_p` cannot both be specified for this model.',
    { temperature: 1, top_p: 1 },
    undefined,
  ],
  ['temperature must be at most 1', { temperature: 2 }, undefined, 'temperature'],
  ["Unsupported parameter: 'seed' is not supported.", { temperature: 1 }, undefined, 'seed'],
]

describe('what a provider refuses', () => {
  const rows = said.map(([message, body, instead, param]) => ({ message, body, instead, param }))
  test.each(rows)('$message', ({ message, body, instead, param }) => {
    const refusals = new LearnedRefusals()
    const refused = fault('invalid-request', message, { status: 400, param })
    expect(refusals.learn('p/m', refused, body)).toBe(instead !== undefined)
    const { body: sent, warnings } = refusals.heed('p/m', body)
    expect(sent).toEqual(instead ?? body)
    expect(warnings.length > 0).toBe(instead !== undefined)
    // Another model of the provider is sent all of it, and the same refusal teaches nothing new.
    expect(refusals.heed('p/other', body).body).toBe(body)
    expect(refusals.learn('p/m', refused, body)).toBe(false)
  })

  test('stays bounded, however much is refused', () => {
    const refusals = new LearnedRefusals()
    const learnt = Array.from({ length: 40 }, (_, at) => {
      const message = `reasoning_effort: level-${at} is not supported`
      return refusals.learn('p/m', fault('invalid-request', message, { status: 400 }), {
        reasoning_effort: `level-${at}`,
      })
    })
    expect(learnt.filter(Boolean)).toHaveLength(16)
  })
})

describe('through the gateway', () => {
  let google: ScriptedProvider
  let lab: Lab

  beforeAll(async () => {
    google = await startScriptedProvider({}, (body) => async (wire) => {
      const head = (status: string) =>
        `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n`
      const level = JSON.stringify(body).includes('"minimal"')
      const message = 'Thinking level MINIMAL is not supported for this model.'
      const error = { code: 400, message, status: 'INVALID_ARGUMENT' }
      const content = { role: 'model', parts: [{ text: 'Deep' }] }
      const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 1, totalTokenCount: 6 }
      const answer = { candidates: [{ index: 0, content, finishReason: 'STOP' }], usageMetadata }
      await wire.write(
        level ? head('400 Bad Request') + JSON.stringify({ error }) : head('200 OK') + JSON.stringify(answer),
      )
      wire.end()
    })
    lab = await startLab({
      providers: { g: { protocol: 'gemini', base_url: google.url } },
      models: { 'g/gemini-3.5-flash': { reasoning: true } },
    })
  })

  afterAll(async () => {
    await lab?.weir.stop()
    await google?.stop()
  })

  test('the request is served at the second attempt, charged once, and later ones at the first', async () => {
    const ask = (stream: boolean) => lab.ask('g/gemini-3.5-flash', { reasoning_effort: 'minimal', stream })
    const first = await ask(false)
    expect(first.status).toBe(200)
    expect(google.arrivals).toHaveLength(2)
    expect(await receiptOf(lab.weir, first.requestId)).toMatchObject({
      usage: { prompt_tokens: 5, completion_tokens: 1 },
      attempts: [
        { outcome: 'failed', code: 'invalid_request', status: 400 },
        { outcome: 'served', code: null },
      ],
    })
    expect(first.headers.get('x-weir-warnings')).toContain('reasoning: "minimal" became "low"')
    expect((await ask(true)).status).toBe(200)
    expect(google.arrivals).toHaveLength(3)
  })
})
