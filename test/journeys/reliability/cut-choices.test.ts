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

const scripts: Readonly<Record<string, string>> = {
  cut: first,
  // A provider that makes fewer than were asked for.
  fewer: first + done,
  both: first + chunk(1, 'Seaward.') + chunk(1, '', 'stop'),
}

let provider: ScriptedProvider
let lab: Lab

beforeAll(async () => {
  provider = await startScriptedProvider({}, (body) => async (wire) => {
    await wire.write(scripts[String(body['model'])]!)
    wire.end()
  })
  lab = await startLab({
    providers: { lab: provider.url },
    models: Object.fromEntries(Object.keys(scripts).map((name) => [`lab/${name}`, [`lab/${name}`]])),
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
