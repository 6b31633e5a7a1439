// The machine's clock is set forward, past every lease, while a call runs.

import { afterEach, expect, setSystemTime, test } from 'bun:test'
import { postAs, receiptOf } from '../../support/call-gateway.ts'
import { startScriptedProvider } from '../../support/scripted-provider.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { until } from '../../chat/lab.ts'

afterEach(() => {
  setSystemTime()
})

const frame = (more: object) => `data: ${JSON.stringify({ id: 'c', model: 'm', created: 1, ...more })}\n\n`
const said = (content: string) => frame({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })

test('a running call is not taken for an abandoned one: it is charged once, what it cost', async () => {
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const provider = await startScriptedProvider({
    m: async (wire) => {
      await wire.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n')
      await wire.write(said('The river '))
      begun.resolve()
      await gate.promise
      const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
      await wire.write(said('runs.') + frame({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
      await wire.write(`${frame({ choices: [], usage })}data: [DONE]\n\n`)
      wire.end()
    },
  })
  await using weir = await serveWeir({
    config: `local_servers: { discover: false }
ledger: { sweep_ms: 50 }
providers: { lab: { protocol: openai-chat, base_url: ${provider.url}, api_key: secret } }
models: [{ id: lab/m, price: { input: '1', output: '2' } }]
`,
  })
  const command = async (...args: string[]) =>
    JSON.parse((await weir.command(...args, '--json')).stdout) as Json
  await command('accounts', 'create', '--email', 'lapse@example.org')
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString()
  const lapse = ['--account', 'lapse@example.org', '--pool', 'purchased', '--usd', '1', '--expires', inAnHour]
  await command('credits', 'grant', ...lapse)

  const answer = await postAs(`${weir.baseUrl}/chat/completions`, weir.key, {
    model: 'lab/m',
    stream: true,
    messages: [{ role: 'user', content: 'Hello' }],
  })
  await begun.promise
  setSystemTime(new Date(Date.now() + 3 * 3_600_000))
  // A sweep has run at the new time when this credit is booked as expired.
  const journal = () => command('credits', 'show', '--account', 'lapse@example.org', '--history')
  await until(journal, ({ history }) => JSON.stringify(history).includes('"expire"'))
  gate.resolve()
  expect(await answer.text()).toContain('runs.')
  const receipt = await receiptOf(weir, answer.headers.get('x-request-id')!)
  expect(receipt).toMatchObject({ charged: '0.00012', ending: 'finished', usage: { estimated: false } })
  expect(await command('credits', 'show', '--account', 'owner@localhost')).toMatchObject({
    available: '99.99988',
    held: '0',
  })
  expect((await weir.command('ledger', 'audit')).code).toBe(0)
  await provider.stop()
})

type Json = Readonly<Record<string, unknown>>
