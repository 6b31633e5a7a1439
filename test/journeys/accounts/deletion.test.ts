// What an account has asked and was answered goes with it; what was charged stays.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { postAs } from '../../support/call-gateway.ts'
import { until } from '../../chat/lab.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import { startScriptedProvider } from '../../support/scripted-provider.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const word = 'kingfisher'

/** The tables of a database in which the word is, in whatever column. */
function tablesWith(file: string, text: string): string[] {
  using database = new Database(file, { readonly: true })
  const tables = database
    .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .all()
  return tables
    .map(({ name }) => name)
    .filter((name) => {
      const rows = database.query(`SELECT * FROM "${name}"`).values()
      return rows.flat().some((value) => {
        const shown = value instanceof Uint8Array ? Buffer.from(value).toString() : String(value)
        return shown.includes(text)
      })
    })
}

test('deleting an account erases its contents everywhere, those of a call in flight as well', async () => {
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const provider = await startScriptedProvider({
    m: async (wire) => {
      begun.resolve()
      await gate.promise
      const message = { role: 'assistant', content: `A ${word}, late.` }
      const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      const body = JSON.stringify({
        id: 'c',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices,
        usage,
      })
      const head = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close`
      await wire.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${body}`)
      wire.end()
    },
  })
  await using weir = await serveWeir({
    config: `local_servers: { discover: false }
log: { prompts: true }
ledger: { sweep_ms: 50 }
providers: { lab: { protocol: openai-chat, base_url: ${provider.url}, api_key: secret } }
models: [{ id: lab/m, price: { input: '1', output: '2' } }]
`,
  })
  const email = 'emma@example.org'
  const emma = new ConsoleClient(weir)
  const password = 'a river runs through it'
  await emma.post('sign-up', { email, password })
  await emma.post('sign-in', { email, password })
  await weir.command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '5')
  const key = String((await emma.post('keys', { name: 'laptop' })).json['key'])
  const ask = (path: string, body: object, bearer = key) =>
    postAs(`${weir.baseUrl}/${path}`, bearer, body, { headers: { 'idempotency-key': crypto.randomUUID() } })
  const chat = (model: string) => ({ model, messages: [{ role: 'user', content: `A ${word}.` }] })
  const file = `${weir.dataDir}/weir.db`

  const answered = await ask('chat/completions', chat('sim/echo'))
  expect(await answered.text()).toContain(word)
  expect((await ask('responses', { model: 'sim/echo', input: `A ${word}.` })).status).toBe(200)
  const refused = await ask('chat/completions', { ...chat('sim/echo'), model: `lab/${word}` })
  expect(refused.status).toBe(404)
  await until(
    () => tablesWith(file, word),
    (tables) => `${tables}` === 'idempotency,request_log,response',
  )
  // Another account's are its own.
  const others = await ask('responses', { model: 'sim/echo', input: 'An otter.' }, weir.key)
  expect(others.status).toBe(200)

  const late = ask('responses', { model: 'lab/m', input: `A ${word}.` })
  await begun.promise
  expect(await emma.send('DELETE', 'account', { confirm: email })).toMatchObject({ status: 200 })
  expect(tablesWith(file, `A ${word}`)).toEqual([])

  // The call in flight has ended with its account, and what it leaves is erased as well.
  const { status, headers } = await late
  expect(status).toBe(401)
  gate.resolve()
  const id = headers.get('x-request-id')!
  await until(
    () => tablesWith(file, id),
    (tables) => tables.includes('request_log'),
  )
  await until(
    () => tablesWith(file, `A ${word}`),
    (tables) => tables.length === 0,
  )
  expect(tablesWith(file, 'An otter.')).toEqual(['idempotency', 'request_log', 'response'])
  // Its calls, their charges and what they count for are still there.
  for (const call of [answered.headers.get('x-request-id')!, id])
    expect(tablesWith(file, call)).toEqual(expect.arrayContaining(['call', 'request_log']))
  expect((await weir.command('ledger', 'audit')).code).toBe(0)
  await provider.stop()
})
