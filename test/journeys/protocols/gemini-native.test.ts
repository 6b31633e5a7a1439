// What only Google's own protocol has words for, from its clients to Google and back, and `extra_body.google` of chat
// clients; elsewhere it is refused or named, never lost in silence.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Json, JsonObject } from '../../../src/conversation/request.ts'
import { type Lab, startLab } from '../../chat/lab.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts'

const head = (type: string) => `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: close\r\n\r\n`

/** What Google says that nobody else does. */
const ofCandidate = {
  safetyRatings: [{ category: 'HARM_CATEGORY_HARASSMENT', probability: 'NEGLIGIBLE' }],
  citationMetadata: { citations: [{ startIndex: 0, endIndex: 4, uri: 'https://rivers.example/' }] },
  urlContextMetadata: { urlMetadata: [{ retrievedUrl: 'https://rivers.example/' }] },
}
const ofUsage = {
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: 12 }],
  candidatesTokensDetails: [{ modality: 'TEXT', tokenCount: 3 }],
  toolUsePromptTokenCount: 400,
  toolUsePromptTokensDetails: [{ modality: 'TEXT', tokenCount: 400 }],
}
const answer = {
  responseId: 'g1',
  modelVersion: 'm',
  promptFeedback: { safetyRatings: [{ category: 'HARM_CATEGORY_HATE_SPEECH', probability: 'LOW' }] },
  candidates: [
    { index: 0, content: { role: 'model', parts: [{ text: 'Deep' }] }, finishReason: 'STOP', ...ofCandidate },
  ],
  usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 3, totalTokenCount: 415, ...ofUsage },
}

let google: ScriptedProvider
let hosted: ScriptedProvider
let lab: Lab
const bodies: JsonObject[] = []

beforeAll(async () => {
  google = await startScriptedProvider({}, (body, path) => async (wire) => {
    bodies.push(body)
    const text = JSON.stringify(answer)
    await wire.write(
      path.includes('stream')
        ? `${head('text/event-stream')}data: ${text}\n\n`
        : head('application/json') + text,
    )
    wire.end()
  })
  hosted = await startScriptedProvider({}, () => async (wire) => {
    const message = { role: 'assistant', content: 'Deep' }
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    await wire.write(head('application/json') + JSON.stringify({ id: 'c', choices, usage }))
    wire.end()
  })
  lab = await startLab({
    providers: { g: { protocol: 'gemini', base_url: google.url }, hosted: hosted.url },
    models: { 'g/gemini-3-flash': ['g/gemini-3-flash'], 'hosted/m': ['hosted/m'] },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all([google, hosted].map((provider) => provider?.stop()))
})

async function ask(path: string, body: Json) {
  const response = await fetch(`${lab.weir.baseUrl.replace(/\/v1$/, '')}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${lab.weir.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  const said = JSON.parse(text.trim().split('data: ').at(-1)!) as JsonObject
  return { status: response.status, said, text, headers: response.headers }
}

const contents = [{ role: 'user', parts: [{ text: 'How deep is it?' }] }]
const functionDeclarations = [{ name: 'level', parametersJsonSchema: { type: 'object', properties: {} } }]
const strict = [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_LOW_AND_ABOVE' }]
const kept: JsonObject = {
  safetySettings: strict,
  labels: { team: 'rivers', cost_center: 'a_b' },
  tools: [{ functionDeclarations }, { urlContext: {} }, { codeExecution: {} }],
  toolConfig: { functionCallingConfig: { mode: 'VALIDATED', allowedFunctionNames: ['level'] } },
  generationConfig: { mediaResolution: 'MEDIA_RESOLUTION_LOW', maxOutputTokens: 50 },
}

describe('from Gemini to Gemini', () => {
  test.each(['generateContent', 'streamGenerateContent?alt=sse'])(
    '%s keeps every field, of the request and the answer',
    async (method) => {
      const { status, said } = await ask(`/v1beta/models/g/gemini-3-flash:${method}`, { contents, ...kept })
      expect(status).toBe(200)
      expect(bodies.at(-1)).toMatchObject(kept)
      expect(said['candidates']).toMatchObject([ofCandidate])
      expect(said).toMatchObject({
        promptFeedback: answer.promptFeedback,
        usageMetadata: { ...ofUsage, promptTokenCount: 12, candidatesTokenCount: 3, totalTokenCount: 415 },
      })
      // What its tools put before the model is billed as the prompt is.
      const receipt = await receiptOf(lab.weir, String(said['responseId']))
      expect(receipt).toMatchObject({ usage: { prompt_tokens: 412 } })
    },
  )

  test.each(['googleMaps', 'computerUse', 'enterpriseWebSearch'])(
    'a tool whose price nobody knows (%s) is refused by its own name',
    async (kind) => {
      const before = bodies.length
      const { status, text } = await ask('/v1beta/models/g/gemini-3-flash:generateContent', {
        contents,
        tools: [{ [kind]: {} }],
      })
      expect([status, bodies.length]).toEqual([400, before])
      expect(text).toContain(kind)
      expect(text).toContain('unsupported_parameter')
    },
  )
})

test('chat clients reach the same by extra_body.google, in either notation', async () => {
  const messages = [{ role: 'user', content: 'How deep is it?' }]
  const { status } = await ask('/v1/chat/completions', {
    model: 'g/gemini-3-flash',
    messages,
    extra_body: {
      google: {
        safety_settings: strict,
        media_resolution: 'MEDIA_RESOLUTION_LOW',
        labels: { cost_center: 'a_b' },
        thinking_config: { thinking_budget: 100, include_thoughts: true },
        tools: [{ url_context: {} }],
      },
    },
  })
  expect(status).toBe(200)
  expect(bodies.at(-1)).toMatchObject({
    safetySettings: strict,
    labels: { cost_center: 'a_b' },
    tools: [{ urlContext: {} }],
    generationConfig: {
      mediaResolution: 'MEDIA_RESOLUTION_LOW',
      thinkingConfig: { thinkingBudget: 100, includeThoughts: true },
    },
  })
})

describe('at a provider that is not Google', () => {
  test.each<[string, JsonObject]>([
    ['safetySettings', { safetySettings: strict }],
    ['tools', { tools: [{ urlContext: {} }] }],
  ])('%s would be lost, and is refused', async (field, more) => {
    const asked = { model: 'hosted/m', messages: [{ role: 'user', content: 'hi' }] }
    const direct = await ask('/v1beta/models/hosted/m:generateContent', { contents, ...more })
    const chat = await ask('/v1/chat/completions', { ...asked, extra_body: { google: more } })
    expect([direct.status, chat.status]).toEqual([400, 400])
    expect(direct.text).toContain(`"param":"${field}"`)
    expect(chat.text).toContain(`"param":"extra_body.google.${field}"`)
  })

  test('settings that block nothing, labels and the like are named', async () => {
    const loose = [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }]
    const { status, headers } = await ask('/v1beta/models/hosted/m:generateContent', {
      contents,
      safetySettings: loose,
      labels: { team: 'rivers' },
      generationConfig: { mediaResolution: 'MEDIA_RESOLUTION_LOW' },
    })
    expect(status).toBe(200)
    const warned = headers.get('x-weir-warnings')
    for (const field of ['safetySettings', 'labels', 'generationConfig.mediaResolution'])
      expect(warned).toContain(`${field}: `)
  })
})
