// Several answers of one call, cut off before the last of them has begun: reported as cut, and charged as served.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { codeIn, type Lab, startLab, wordsIn } from '../../chat/lab.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts'

const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n'
const chunk = (index: number, content: string, finish: string | null = null) =>
  `data: ${JSON.stringify({
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index, delta: { role: 'assistant', content }, finish_reason: finish }],
  })}\n\n`
const first = head + chunk(0, 'Downhill.') + chunk(0, '', 'stop')
const done = 'data: [DONE]\n\n'

const candidate = (index: number, text: string, finishReason?: string) =>
  `data: ${JSON.stringify({
    candidates: [{ index, content: { role: 'model', parts: [{ text }] }, finishReason }],
    usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 4, totalTokenCount: 16 },
    modelVersion: 'm',
  })}\n\n`
const firstCandidate = head + candidate(0, 'Downhill.') + candidate(0, '', 'STOP')

/** By the model in a path of Gemini's. */
const candidates: Readonly<Record<string, string>> = {
  'g-cut': firstCandidate,
  'g-open': firstCandidate + candidate(1, 'Sea'),
  // What some gateways in front of Google append.
  'g-fewer': firstCandidate + done,
  'g-both': firstCandidate + candidate(1, 'Seaward.', 'STOP'),
}

const scripts: Readonly<Record<string, string>> = {
  cut: first,
  // A provider that makes fewer than were asked for.
  fewer: first + done,
  both: first + chunk(1, 'Seaward.') + chunk(1, '', 'stop'),
}

let provider: ScriptedProvider
let lab: Lab

beforeAll(async () => {
  provider = await startScriptedProvider({}, (body, path) => async (wire) => {
    const [, name = String(body['model'])] = /models\/([^:]+):/.exec(path) ?? []
    await wire.write({ ...scripts, ...candidates }[name]!)
    wire.end()
  })
  const servedBy = (id: string, names: object) =>
    Object.keys(names).map((name) => [`lab/${name}`, [`${id}/${name}`]] as const)
  lab = await startLab({
    providers: { lab: provider.url, google: { protocol: 'gemini', base_url: provider.url } },
    models: Object.fromEntries([...servedBy('lab', scripts), ...servedBy('google', candidates)]),
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

const two = { n: 2, stream: true, max_tokens: 50 }

describe('a stream of two answers', () => {
  test('that ends before the second has begun is an error after what came, and is charged', async () => {
    const { text, requestId } = await lab.ask('lab/cut', two)
    expect(wordsIn(text)).toContain('Downhill.')
    expect(codeIn(text)).toBe('upstream_error')
    expect(await receiptOf(lab.weir, requestId)).toMatchObject({
      ending: 'provider-cut',
      usage: { estimated: true, completion_tokens: 3 },
    })
    expect(await lab.used()).toBeGreaterThan(0)
  })

  test.each(['fewer', 'both'])('that is whole (%s) is finished', async (name) => {
    const { text, requestId } = await lab.ask(`lab/${name}`, two)
    expect(codeIn(text)).toBeUndefined()
    expect(text).toEndWith(done)
    expect(await receiptOf(lab.weir, requestId)).toMatchObject({ ending: 'finished' })
  })

  test.each(['g-cut', 'g-open'])('of Gemini that is cut (%s) is an error, and is charged', async (name) => {
    const { text, requestId } = await lab.ask(`lab/${name}`, two)
    expect(wordsIn(text)).toContain('Downhill.')
    expect(codeIn(text)).toBe('upstream_error')
    const receipt = await receiptOf(lab.weir, requestId)
    expect(receipt).toMatchObject({ ending: 'provider-cut', usage: { prompt_tokens: 12 } })
    expect(receipt!.usage!.completion_tokens).toBeGreaterThanOrEqual(4)
  })

  test.each(['g-fewer', 'g-both'])('of Gemini that is whole (%s) is finished', async (name) => {
    const { text, requestId } = await lab.ask(`lab/${name}`, two)
    expect(codeIn(text)).toBeUndefined()
    expect(await receiptOf(lab.weir, requestId)).toMatchObject({
      ending: 'finished',
      usage: { prompt_tokens: 12, completion_tokens: 4 },
    })
  })

  test('is the same to a client of another protocol', async () => {
    const open = async (model: string) => {
      const response = await fetch(
        `${lab.weir.origin}/v1beta/models/${model}:streamGenerateContent?alt=sse`,
        {
          method: 'POST',
          headers: { 'x-goog-api-key': lab.weir.key, 'content-type': 'application/json' },
          body: JSON.stringify({
            contents: [{ role: 'user', parts: [{ text: 'Where does it run?' }] }],
            generationConfig: { candidateCount: 2, maxOutputTokens: 50 },
          }),
        },
      )
      return response.text()
    }
    expect(await open('lab/cut')).toContain('"error"')
    for (const name of ['fewer', 'both']) expect(await open(`lab/${name}`)).not.toContain('"error"')
  })
})
