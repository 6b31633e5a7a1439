// What calls were for: through every door, on the receipt, in the log of requests and in the usage; what is out of bounds
// is refused with its name, and what a client sends in its body is never a reason to refuse it.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { Failpoint } from '../../../src/credits/ledger/failpoint.ts'
import type { UsageView } from '../../../src/http/v1/usage.ts'
import {
  accountWith,
  eventually,
  expectAudited,
  getAs,
  post,
  postAs,
  receiptOf,
  runJson,
} from '../../support/call-gateway.ts'
import { type ServedWeir, startWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

let weir: ServedWeir

beforeAll(async () => {
  weir = await serveWeir({
    config: `local_servers: { discover: false }
search: { backend: sim, price_per_call: "0.005" }
`,
  })
}, 30_000)
afterAll(() => weir?.stop())

const messages = [{ role: 'user', content: 'Hello, river.' }]
const header = { 'x-weir-tags': 'team=search, feature=chat' }
const inHeader = { team: 'search', feature: 'chat' }
type Headers = Readonly<Record<string, string>>

/** The request id of what a path answers. */
async function asked(path: string, body: object, headers: Headers = header): Promise<string> {
  const response = await postAs(weir.origin + path, weir.key, body, { headers })
  const text = await response.text()
  expect([response.status, text.includes('"error":{')]).toEqual([200, false])
  return response.headers.get('x-request-id') ?? ''
}

async function usage(query: string, key = weir.key): Promise<UsageView> {
  const response = await getAs(`${weir.baseUrl}/usage?${query}`, key)
  expect(response.status).toBe(200)
  return (await response.json()) as UsageView
}

async function overSocket(): Promise<string> {
  const headers = { authorization: `Bearer ${weir.key}`, ...header }
  const socket = new WebSocket(`${weir.baseUrl.replace('http', 'ws')}/responses`, { headers } as never)
  await new Promise((resolve) => socket.addEventListener('open', resolve))
  const id = new Promise<string>((resolve) =>
    socket.addEventListener('message', ({ data }) => {
      const frame = JSON.parse(String(data)) as { type: string; response: { id: string } }
      if (frame.type === 'response.completed') resolve(frame.response.id)
    }),
  )
  socket.send(JSON.stringify({ type: 'response.create', model: 'sim/echo', input: 'Hello, river.' }))
  const ended = await id
  socket.close()
  return ended
}

async function inBackground(): Promise<string> {
  const body = { model: 'sim/echo', input: 'Hello, river.', background: true }
  const response = await postAs(`${weir.baseUrl}/responses`, weir.key, body, { headers: header })
  const { id } = (await response.json()) as { id: string }
  await (await getAs(`${weir.baseUrl}/responses/${id}?stream=true`, weir.key)).text()
  return id
}

async function byMcp(name: string, given: Record<string, unknown>): Promise<string> {
  const client = new McpClient({ name: 'test', version: '1' })
  const headers = { authorization: `Bearer ${weir.key}`, ...header }
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${weir.origin}/mcp`), { requestInit: { headers } }),
  )
  const { structuredContent, isError } = await client.callTool({ name, arguments: given })
  await client.close()
  expect(isError ?? false).toBe(false)
  const { id } = structuredContent as { id?: string }
  if (id !== undefined) return id
  // A search has no id of its own, and the log is a moment behind.
  const searches = async () => {
    const path = `/requests?limit=1&model=${encodeURIComponent('sim/search:free')}`
    return (await (await getAs(weir.baseUrl + path, weir.key)).json()) as { data: { id: string }[] }
  }
  return (await eventually(searches, ({ data }) => data.length > 0)).data[0]!.id
}

const gemini = { contents: [{ role: 'user', parts: [{ text: 'Hello, river.' }] }] }
const search = {
  model: 'sim/tools',
  messages: [{ role: 'user', content: 'How high is Mount Everest?' }],
  tools: [{ type: 'web_search' }],
}
const decisions = {
  model: 'sim/echo',
  input: 'The river is high.',
  questions: [{ type: 'predicate', instructions: 'Is there a risk of a flood?' }],
}
const claude = { model: 'sim/echo', max_tokens: 50, messages }

const doors: readonly (readonly [name: string, ask: () => Promise<string>])[] = [
  ['chat completions', () => asked('/v1/chat/completions', { model: 'sim/echo', messages })],
  ['chat, streamed', () => asked('/v1/chat/completions', { model: 'sim/echo', messages, stream: true })],
  ['completions', () => asked('/v1/completions', { model: 'sim/echo', prompt: 'Hello' })],
  ['responses', () => asked('/v1/responses', { model: 'sim/echo', input: 'Hello' })],
  ['responses, streamed', () => asked('/v1/responses', { model: 'sim/echo', input: 'Hello', stream: true })],
  ['responses in the background', inBackground],
  ['responses over a socket', overSocket],
  ['messages', () => asked('/v1/messages', claude)],
  ['gemini', () => asked('/v1beta/models/sim/echo:generateContent', gemini)],
  ['gemini, streamed', () => asked('/v1beta/models/sim/echo:streamGenerateContent?alt=sse', gemini)],
  ['interactions', () => asked('/v1beta/interactions', { model: 'sim/echo', input: 'Hello' })],
  ['embeddings', () => asked('/v1/embeddings', { model: 'sim/embed', input: 'Hello' })],
  ['decisions', () => asked('/v1/decisions', decisions)],
  ['a search of the web', () => asked('/v1/chat/completions', search)],
  ['the chat tool of MCP', () => byMcp('chat', { model: 'sim/echo', prompt: 'Hello' })],
  ['the search tool of MCP', () => byMcp('web_search', { query: 'How high is Mount Everest?' })],
]

describe('the header', () => {
  test.each(doors)('of %s is on the receipt', async (_, ask) => {
    const id = await ask()
    const receipt = await eventually(
      () => receiptOf(weir, id),
      (found) => found !== undefined && found.state !== 'open',
    )
    expect(receipt).toMatchObject({ state: 'settled', tags: inHeader })
    const row = await eventually(
      async () => getAs(`${weir.baseUrl}/requests/${receipt!.id}`, weir.key).then((found) => found.json()),
      (found) => (found as { data?: unknown }).data !== undefined,
    )
    expect(row).toMatchObject({ data: { tags: inHeader, receipt: { tags: inHeader } } })
  })

  test.each([
    ['/v1/chat/completions', { model: 'sim/echo', messages }],
    ['/v1/responses', { model: 'sim/echo', input: 'Hello' }],
    ['/v1/responses', { model: 'sim/echo', input: 'Hello', background: true }],
    ['/v1/messages', claude],
    ['/v1beta/models/sim/echo:generateContent', gemini],
    ['/v1beta/interactions', { model: 'sim/echo', input: 'Hello' }],
    ['/v1/embeddings', { model: 'sim/embed', input: 'Hello' }],
    ['/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }],
  ])('out of bounds is refused: %s', async (path, body) => {
    const response = await postAs(weir.origin + path, weir.key, body, { headers: { 'x-weir-tags': 'team' } })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('x-weir-tags: a tag is written name=value.')
  })
})

describe('the body', () => {
  const receiptTags = async (path: string, body: object, headers: Headers = {}) =>
    (await receiptOf(weir, await asked(path, body, headers)))!.tags

  test.each<[string, string, object, Record<string, string>]>([
    ['user of chat', '/v1/chat/completions', { model: 'sim/echo', messages, user: 'u1' }, { user: 'u1' }],
    [
      'safety_identifier of chat',
      '/v1/chat/completions',
      { model: 'sim/echo', messages, safety_identifier: 's1' },
      { user: 's1' },
    ],
    [
      'metadata of chat',
      '/v1/chat/completions',
      { model: 'sim/echo', messages, user: 'u1', metadata: { feature: 'x', user: 'no', user_id: 'no' } },
      { user: 'u1', feature: 'x' },
    ],
    [
      'metadata of responses',
      '/v1/responses',
      { model: 'sim/echo', input: 'Hello', metadata: { feature: 'x' } },
      { feature: 'x' },
    ],
    [
      'metadata.user_id of messages',
      '/v1/messages',
      { ...claude, metadata: { user_id: 'u2' } },
      { user: 'u2' },
    ],
    [
      'labels of gemini',
      '/v1beta/models/sim/echo:generateContent',
      { ...gemini, labels: { feature: 'x' } },
      { feature: 'x' },
    ],
    [
      'labels of interactions',
      '/v1beta/interactions',
      { model: 'sim/echo', input: 'Hello', labels: { feature: 'x' } },
      { feature: 'x' },
    ],
    ['user of embeddings', '/v1/embeddings', { model: 'sim/embed', input: 'Hi', user: 'u1' }, { user: 'u1' }],
  ])('%s', async (_, path, body, tags) => {
    expect(await receiptTags(path, body)).toEqual(tags)
  })

  test('says less than the header of the same name', async () => {
    const body = { model: 'sim/echo', messages, user: 'u1', metadata: { team: 'b', plan: 'p' } }
    expect(await receiptTags('/v1/chat/completions', body, { 'x-weir-tags': 'user=u9,team=a' })).toEqual({
      user: 'u9',
      team: 'a',
      plan: 'p',
    })
  })

  test('that holds more than a tag may is served, and named in warnings or refused where it is strict', async () => {
    const metadata = { ok: 'x', 'not a name': 'x', long: 'v'.repeat(513) }
    const body = { model: 'sim/echo', messages, metadata }
    const answer = await post(weir, body)
    const { warnings } = JSON.parse(answer.text) as { warnings: { param: string; message: string }[] }
    expect(warnings.filter(({ message }) => message.includes('no tag')).map(({ param }) => param)).toEqual([
      'metadata.not a name',
      'metadata.long',
    ])
    expect((await receiptOf(weir, answer.requestId))!.tags).toEqual({ ok: 'x' })
    const strict = await post(weir, { ...body, strict: true })
    expect([strict.status, strict.error?.code, strict.error?.param]).toEqual([
      400,
      'unsupported_parameter',
      'metadata.not a name',
    ])
  })

  test('with seventeen pairs has sixteen tags', async () => {
    const metadata = Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`t${n}`, 'v']))
    expect(
      Object.keys(await receiptTags('/v1/chat/completions', { model: 'sim/echo', messages, metadata })),
    ).toEqual(Array.from({ length: 16 }, (_, n) => `t${n}`))
  })
})

test.each(['request-sent', 'checkpoint-committed', 'end-written'] as const satisfies readonly Failpoint[])(
  'a call that is killed at %s keeps its tags when it is ended for its process',
  async (point) => {
    using dir = tempDir('weir-tags-killed-')
    const dataDir = dir.join('data')
    const doomed = await startWeir({ dataDir, env: { WEIR_TEST_FAILPOINT: `${point}:1` } })
    const body = { model: 'sim/long', messages, stream: true, user: 'ada' }
    const asking = postAs(`${doomed.baseUrl}/chat/completions`, doomed.key, body, { headers: header })
    await asking.then((response) => response.text()).catch(() => undefined)
    await doomed.exited
    const [, call = ''] = /failpoint [a-z-]+ (req_[0-9a-f]{32})/.exec(doomed.output())!

    await using again = { ...(await startWeir({ dataDir })), key: doomed.key }
    const receipt = await eventually(
      () => receiptOf(again, call),
      (found) => found !== undefined && found.state !== 'open',
    )
    expect(receipt!.tags).toEqual({ ...inHeader, user: 'ada' })
    const response = await getAs(`${again.baseUrl}/usage?by=user`, again.key)
    const { data } = (await response.json()) as UsageView
    expect(data).toMatchObject([{ group: 'ada', calls: 1, charged: receipt!.charged }])
    await expectAudited(again)
  },
  30_000,
)

describe('usage', () => {
  test('by tag, by person and by month is what the receipts add up to; who has no account has a cost', async () => {
    const { key, keyId } = await accountWith(weir, 'shop@example.org', { purchased: '5' })
    const people = ['ada', 'grace', 'ada', 'eve']
    let total = 0
    for (const user of people) {
      const answer = await post(weir, { model: 'sim/echo', messages, user }, { key, headers: header })
      total += Math.round(Number((await receiptOf(weir, answer.requestId, key))!.charged) * 1e12)
    }
    await post(weir, { model: 'sim/echo', messages }, { key })
    const refused = { model: 'no/such', messages, user: 'eve' }
    expect((await post(weir, refused, { key })).status).toBe(404)
    const found = await eventually(
      () => usage('by=user', key),
      ({ totals }) => totals.calls === 6,
    )
    const each = total / people.length / 1e12
    expect(found).toMatchObject({ by: 'user', per: 'day', rest: null })
    expect(
      found.data.map(({ group, calls, errors, charged }) => [group, calls, errors, Number(charged)]),
    ).toEqual([
      ['', 1, 0, expect.any(Number)],
      ['ada', 2, 0, 2 * each],
      ['eve', 2, 1, each],
      ['grace', 1, 0, each],
    ])
    const months = await usage('by=tag:feature&per=month', key)
    expect(months).toMatchObject({ by: 'tag:feature', per: 'month', totals: found.totals })
    expect(months.data.map(({ day, group, calls }) => [day, group, calls])).toEqual([
      [expect.stringMatching(/^\d{4}-\d\d$/), '', 2],
      [expect.stringMatching(/^\d{4}-\d\d$/), 'chat', 4],
    ])
    expect((await usage('by=key&tag=user=ada', key)).data).toMatchObject([{ group: keyId, calls: 2 }])
    // Another account has had none of it.
    expect((await usage('tag=user=ada')).totals.calls).toBe(0)

    const csv = await (await getAs(`${weir.baseUrl}/usage.csv?by=user&per=month`, key)).text()
    expect(
      csv
        .split('\r\n')
        .slice(1, 3)
        .map((line) => line.split(',').slice(1, 4)),
    ).toEqual([
      ['', '', '1'],
      ['ada', '', '2'],
    ])
    // The operator has the same, of everybody and of one.
    const managing = await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost')
    const all = (await (
      await getAs(`${weir.origin}/admin/v1/usage?by=user`, String(managing['key']))
    ).json()) as UsageView
    expect(all.data.find(({ group }) => group === 'ada')).toMatchObject({ calls: 2 })
    const accounts = (await (
      await getAs(`${weir.origin}/admin/v1/usage?by=account&tag=feature=chat`, String(managing['key']))
    ).json()) as UsageView
    expect(accounts.data.find(({ label }) => label === 'shop@example.org')).toMatchObject({ calls: 4 })
    const command = ['usage', '--account', 'shop@example.org', '--by', 'user', '--per', 'month']
    expect(await runJson(weir, ...command)).toMatchObject({ by: 'user', totals: found.totals })
    await expectAudited(weir)
  })

  test('by group is what the receipts of its keys add up to; its tags are those of its calls', async () => {
    const managing = await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost')
    const admin = async (path: string, body?: object): Promise<Record<string, unknown>> => {
      const url = `${weir.origin}/admin/v1/${path}`
      const key = String(managing['key'])
      const response = await (body === undefined ? getAs(url, key) : postAs(url, key, body))
      expect(response.ok).toBe(true)
      return (await response.json()) as Record<string, unknown>
    }
    await accountWith(weir, 'ida@example.org', { purchased: '5' })
    const { id: account } = await runJson(weir, 'accounts', 'show', 'ida@example.org')
    const tags = { 'cost-center': '42', team: 'works' }
    const outer = String((await admin('groups', { name: 'works', tags }))['id'])
    const group = String((await admin('groups', { name: 'lab', parent: outer, tags: { team: 'lab' } }))['id'])
    await admin(`groups/${group}/members`, { account })
    const { key } = await admin(`accounts/${String(account)}/keys`, { name: 'of the lab', group })

    const headers = { 'x-weir-tags': 'team=mine,feature=chat' }
    const answer = await post(weir, { model: 'sim/echo', messages }, { key: String(key), headers })
    const refused = await post(weir, { model: 'no/such', messages }, { key: String(key) })
    expect(refused.status).toBe(404)
    const receipt = (await receiptOf(weir, answer.requestId, String(key)))!
    expect(receipt.tags).toEqual({ team: 'lab', 'cost-center': '42', feature: 'chat' })
    const found = await eventually(
      async () => (await admin(`usage?by=group&account=${String(account)}`)) as unknown as UsageView,
      ({ totals }) => totals.calls === 2,
    )
    expect(found).toMatchObject({
      by: 'group',
      data: [{ group, label: 'lab', calls: 2, errors: 1, charged: receipt.charged }],
    })
    expect(await runJson(weir, 'usage', '--by', 'tag:cost-center')).toMatchObject({
      data: expect.arrayContaining([
        expect.objectContaining({ group: '42', charged: receipt.charged }),
      ]) as [],
    })
  })

  test.each([
    ['by=tag:', 'by'],
    ['by=tag', 'by'],
    ['per=week', 'per'],
    ['tag=feature', 'tag'],
    ['by=tag:team&tag=feature=chat', 'tag'],
  ])('%s is refused by name', async (query, param) => {
    const response = await getAs(`${weir.baseUrl}/usage?${query}`, weir.key)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param } })
  })
})
