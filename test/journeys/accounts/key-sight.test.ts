// A key is not as wide as its account: what it lists, reads, continues, deletes and is given again.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { until } from '../../chat/lab.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { keyFor, runJson } from '../../support/call-gateway.ts'

type Json = Readonly<Record<string, unknown>>

interface Asked {
  readonly status: number
  readonly json: Json
  readonly text: string
  readonly headers: Headers
}

const email = 'anna@example.org'
const secret = 'the otter sleeps'

describe('what keys see', () => {
  let weir: ServedWeir
  /** By what each is called here. */
  const keys: Record<string, { readonly id: string; readonly key: string }> = {}
  let session: string

  const command = (...args: string[]) => runJson(weir, ...args)

  async function ask(
    who: string,
    method: string,
    path: string,
    body?: object,
    more: object = {},
  ): Promise<Asked> {
    const response = await fetch(`${weir.origin}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${keys[who]?.key ?? session}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...more,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const json = (text.startsWith('{') ? JSON.parse(text) : {}) as Json
    return { status: response.status, json, text, headers: response.headers }
  }

  /** A response of the key's own. */
  async function answered(
    who: string,
    more: object = {},
    path = '/v1',
  ): Promise<{ id: string; call: string }> {
    const { status, json, headers } = await ask(who, 'POST', `${path}/responses`, {
      model: 'sim/echo',
      input: `${secret} (${who})`,
      ...more,
    })
    expect(status).toBe(200)
    return { id: String(json['id']), call: headers.get('x-request-id')! }
  }

  beforeAll(async () => {
    weir = await serveWeir({ config: 'local_servers: { discover: false }' })
    await command('accounts', 'create', '--email', email)
    await command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '1')
    const make = async (name: string, ...options: string[]) => {
      const { id, key } = await command('keys', 'create', '--account', email, '--name', name, ...options)
      keys[name] = { id: String(id), key: String(key) }
    }
    await make('live')
    await make('other')
    await make('narrow', '--models', 'sim/tools')
    await make('poor', '--limit-usd', '0.000000000001')
    await make('all', '--sees', 'all')
    await make('all-narrow', '--sees', 'all', '--models', 'sim/tools')
    await make('test', '--test')
    await make('test-other', '--test')
    await make('test-all', '--test', '--sees', 'all')
    const { id, key } = await command('keys', 'rotate', keys['live']!.id, '--overlap', '1h')
    keys['successor'] = { id: String(id), key: String(key) }
    session = String((await command('accounts', 'session', '--account', email))['token'])
  }, 60_000)
  afterAll(() => weir?.stop())

  /** Who made the call, who may see it, and who may not. */
  const table: readonly [maker: string, seenBy: readonly string[], hiddenFrom: readonly string[]][] = [
    ['live', ['live', 'successor', 'all'], ['other', 'narrow', 'poor', 'test', 'test-other', 'test-all']],
    ['successor', ['live', 'successor', 'all'], ['other', 'test-all']],
    ['test', ['test', 'test-all', 'all'], ['test-other', 'live', 'other', 'narrow']],
    ['app', ['all'], ['live', 'other', 'narrow', 'test', 'test-all']],
  ]
  const model = (who: string) => (who.endsWith('narrow') ? 'sim/tools' : 'sim/echo')

  test.each(table)(
    'calls and responses of %p are seen by %p and hidden from %p',
    async (maker, seenBy, hiddenFrom) => {
      const { id, call } = await answered(maker, {}, maker === 'app' ? '/app/v1' : '/v1')
      const item = `${id.replace('resp_', 'msg_')}_0`
      // Rows of the log are written together, a quarter of a second after their calls.
      await until(
        () => ask('all', 'GET', `/v1/requests/${call}`),
        ({ status }) => status === 200,
      )
      const seen = async (who: string) => ({
        who,
        response: (await ask(who, 'GET', `/v1/responses/${id}`)).status,
        input: (await ask(who, 'GET', `/v1/responses/${id}/input_items`)).status,
        request: (await ask(who, 'GET', `/v1/requests/${call}`)).status,
        receipt: (await ask(who, 'GET', `/v1/generation?id=${call}`)).status,
        byAnswer: (await ask(who, 'GET', `/v1/generation?id=${id}`)).status,
        listed: JSON.stringify((await ask(who, 'GET', '/v1/requests?limit=200')).json).includes(call),
        continued: (
          await ask(who, 'POST', '/v1/responses', {
            model: model(who),
            input: 'and?',
            previous_response_id: id,
          })
        ).status,
        counted: (
          await ask(who, 'POST', '/v1/responses/input_tokens', {
            model: model(who),
            input: 'and?',
            previous_response_id: id,
          })
        ).status,
        referred: (
          await ask(who, 'POST', '/v1/responses', {
            model: model(who),
            input: [
              { type: 'item_reference', id: item },
              { role: 'user', content: 'and?' },
            ],
          })
        ).status,
      })
      const open = { response: 200, input: 200, request: 200, receipt: 200, byAnswer: 200 }
      for (const who of seenBy)
        expect(await seen(who)).toEqual({
          who,
          ...open,
          listed: true,
          continued: 200,
          counted: 200,
          referred: 200,
        })
      const shut = { response: 404, input: 404, request: 404, receipt: 404, byAnswer: 404 }
      for (const who of hiddenFrom) {
        expect(await seen(who)).toEqual({
          who,
          ...shut,
          listed: false,
          continued: 400,
          counted: 400,
          referred: 400,
        })
        expect((await ask(who, 'DELETE', `/v1/responses/${id}`)).status).toBe(404)
      }
      expect((await ask('app', 'GET', `/app/v1/responses/${id}`)).status).toBe(200)
      expect((await ask('app', 'GET', `/app/v1/generation?id=${call}`)).status).toBe(200)
      expect((await ask(seenBy.at(-1)!, 'DELETE', `/v1/responses/${id}`)).status).toBe(200)
    },
  )

  test('a conversation that began with another key is not had by what continues it', async () => {
    const first = await answered('other')
    const second = await answered('all', { previous_response_id: first.id })
    const third = await answered('all', { previous_response_id: second.id })
    expect((await ask('other', 'GET', `/v1/responses/${third.id}`)).status).toBe(404)
    expect((await ask('other', 'GET', `/v1/responses/${first.id}`)).status).toBe(200)
    const { text } = await ask('all', 'GET', `/v1/responses/${third.id}/input_items?limit=100`)
    expect(text).toContain(`${secret} (other)`)
  })

  test('a key that sees all continues only what it may ask for', async () => {
    const { id } = await answered('live')
    const asked = { model: 'sim/tools', input: 'and?', previous_response_id: id }
    const refused = await ask('all-narrow', 'POST', '/v1/responses', asked)
    expect(refused).toMatchObject({ status: 400, json: { error: { code: 'previous_response_not_found' } } })
  })

  test('usage is that of the own calls, as JSON and as CSV, by whatever it is divided', async () => {
    await answered('other')
    await answered('test')
    const keysIn = async (who: string, query = '') => {
      const { json } = await ask(who, 'GET', `/v1/usage?by=key${query}`)
      return (json['data'] as Json[]).map(({ group }) => String(group)).toSorted()
    }
    const id = (name: string) => keys[name]!.id
    expect(await keysIn('other')).toEqual([id('other')])
    expect(await keysIn('test')).toEqual([id('test')])
    expect(await keysIn('narrow', `&key=${id('other')}`)).toEqual([])
    expect(await keysIn('live')).toEqual([id('live'), id('successor')].toSorted())
    expect(await keysIn('successor')).toEqual(await keysIn('live'))
    expect(await keysIn('all')).toEqual(expect.arrayContaining([id('other'), id('test'), '']))
    const ofTests = await keysIn('test-all')
    expect(ofTests).toContain(id('test'))
    expect(ofTests).not.toContain(id('other'))
    const csv = async (who: string) => (await ask(who, 'GET', '/v1/usage.csv?by=key')).text
    expect(await csv('test')).not.toContain(id('other'))
    expect(await csv('other')).toContain(id('other'))
  })

  test('a test key is told nothing of the credit', async () => {
    const { json } = await ask('test', 'GET', '/v1/credits')
    expect(json['data']).toMatchObject({ available: '0', total_purchased: '0', total_used: '0', debt: '0' })
    expect((await ask('live', 'GET', '/v1/credits')).json['data']).toMatchObject({ total_purchased: '1' })
  })

  test('says what it sees, which a rotation keeps and nobody changes', async () => {
    expect((await ask('all', 'GET', '/v1/key')).json['data']).toMatchObject({ sees: 'all' })
    expect((await ask('live', 'GET', '/v1/key')).json['data']).toMatchObject({ sees: 'own' })
    const made = await command('keys', 'create', '--account', email, '--sees', 'all')
    expect(await command('keys', 'rotate', String(made['id']))).toMatchObject({ sees: 'all' })
    const wrong = await weir.command('keys', 'create', '--account', email, '--sees', 'everything')
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('--sees') })
  })

  test.each([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: secret }] }],
    ['/v1/responses', { input: secret }],
    ['/v1/messages', { messages: [{ role: 'user', content: secret }], max_tokens: 50 }],
  ])(
    'a kept answer of POST %s is given again only to a key that could have made the call',
    async (path, body) => {
      const asked = { model: 'sim/echo', ...body }
      const again = (who: string) =>
        ask(who, 'POST', path, asked, { 'idempotency-key': `once ${path}`.replaceAll(/\W/g, '-') })
      const first = await again('live')
      expect(first.status).toBe(200)
      for (const who of ['live', 'successor', 'other', 'all']) {
        const { status, text, headers } = await again(who)
        expect({ who, status, replayed: headers.get('idempotency-replayed') }).toEqual({
          who,
          status: 200,
          replayed: 'true',
        })
        expect(text).toBe(first.text)
      }
      for (const [who, status] of [
        ['narrow', 403],
        ['all-narrow', 403],
        ['test', 409],
        ['test-all', 409],
      ] as const) {
        const refused = await again(who)
        expect({ who, status: refused.status }).toEqual({ who, status })
        expect(refused.text).not.toContain(secret)
      }
    },
  )

  test('a key that has spent its limit is given its own answers again, and those of no other', async () => {
    const { id, key } = await command('keys', 'create', '--account', email, '--limit-usd', '0.0001')
    keys['spent'] = { id: String(id), key: String(key) }
    const asked = (text: string) => ({ model: 'sim/echo', input: text, max_output_tokens: 20 })
    const send = (who: string, name: string) =>
      ask(who, 'POST', '/v1/responses', asked(name), { 'idempotency-key': name })
    const own = await send('spent', 'of-its-own')
    expect(own.status).toBe(200)
    expect((await send('live', 'of-another')).status).toBe(200)
    await command('keys', 'limit', String(id), '--limit-usd', '0.000000000001')
    const answers = async () => {
      const [mine, others] = [await send('spent', 'of-its-own'), await send('spent', 'of-another')]
      return [mine.status, others.status, Object(others.json['error'])['code']]
    }
    expect(await until(answers, ([, status]) => status !== 200)).toEqual([200, 403, 'key_limit_exceeded'])
  })
})

test('a key that is limited to models is shown these and no others, in each shape of the list', async () => {
  await using weir = await serveWeir({ config: 'rate_limits: { free_bytes_per_minute: 0 }' })
  const { key } = await keyFor(weir, 'owner@localhost', '--models', 'sim/echo,openai/*')
  const list = async (path: string, headers: Record<string, string>) => {
    const answer = await fetch(`${weir.origin}${path}`, { headers })
    const { data, models } = (await answer.json()) as { data?: { id: string }[]; models?: { name: string }[] }
    const ids = data?.map(({ id }) => id) ?? models!.map(({ name }) => name.replace('models/', ''))
    return { ids, shared: answer.headers.get('cache-control')?.includes('public') }
  }
  // Whoever may search at all may search for nothing.
  const isMine = (id: string) => /^(openai\/|sim\/(echo|search:free)$)/.test(id)
  const bearer = { authorization: `Bearer ${key}` }
  const everybodys = (await list('/v1/models', {})).ids
  const mine = await list('/v1/models', bearer)
  expect(mine).toEqual({ ids: everybodys.filter(isMine), shared: false })
  expect(mine.ids).toContain('sim/echo')
  expect(everybodys.length).toBeGreaterThan(mine.ids.length)
  expect((await list('/v1/models?provider=sim&q=echo', bearer)).ids).toEqual(['sim/echo'])
  const anthropics = await list('/v1/models?limit=1000', {
    'x-api-key': key,
    'anthropic-version': '2023-06-01',
  })
  expect(anthropics.ids).toEqual(mine.ids)
  const googles = await list('/v1beta/models?pageSize=1000', { 'x-goog-api-key': key })
  expect(googles.ids.length).toBeGreaterThan(1)
  expect(googles.ids.filter((id) => !isMine(id))).toEqual([])
  // Nobody needs a key here, so one that is none is shown all.
  expect((await list('/v1/models', { authorization: 'Bearer none' })).ids).toEqual(everybodys)
  expect((await list('/v1/models', { authorization: `Bearer ${weir.key}` })).ids).toEqual(everybodys)
})
