// The conversations of the chat as the console asks for them: kept, continued, listed, and gone when they are deleted.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let cookie: string

beforeAll(async () => {
  weir = await serveWeir({ config: 'server: { max_body_bytes: 60000 }' })
  cookie = await signedIn('owner@localhost')
}, 30_000)
afterAll(() => weir?.stop())

/** The cookie of a session of the account, by a link. */
async function signedIn(email: string): Promise<string> {
  const link = await weir.command('accounts', 'link', '--account', email, '--json')
  const { url } = JSON.parse(link.stdout) as { url: string }
  const response = await asked('POST', '/console/api/link', { token: url.slice(url.indexOf('#') + 1) }, '')
  expect(response.status).toBe(200)
  return response.headers.get('set-cookie')!.split(';')[0]!
}

function asked(method: string, path: string, body?: object, as = cookie): Promise<Response> {
  return fetch(`${weir.origin}${path}`, {
    method,
    headers: {
      origin: weir.origin,
      ...(as === '' ? {} : { cookie: as }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

interface Conversation {
  readonly id: string
  readonly title: string
  readonly last_response: string | null
  readonly turns: readonly {
    readonly response: { readonly id: string; readonly output: readonly { readonly type: string }[] }
    readonly input: readonly { readonly role: string }[]
  }[]
}

const jsonOf = async <T>(response: Promise<Response>): Promise<T> => (await (await response).json()) as T

async function said(text: string, previous?: string): Promise<string> {
  const body = { model: 'sim/echo', input: text, ...(previous ? { previous_response_id: previous } : {}) }
  return (await jsonOf<{ id: string }>(asked('POST', '/app/v1/responses', body))).id
}

describe('a conversation', () => {
  test('is not shared where the operator has not allowed it', async () => {
    const { id } = await jsonOf<Conversation>(asked('POST', '/console/api/conversations', { title: 'River' }))
    await asked('PATCH', `/console/api/conversations/${id}`, { last_response: await said('one') })
    const refused = await asked('POST', `/console/api/conversations/${id}/share`, {})
    expect([refused.status, await refused.text()]).toEqual([
      404,
      expect.stringContaining('accounts.share_links'),
    ])
    expect((await asked('GET', '/console/api/shared/any', undefined, '')).status).toBe(404)
    await asked('DELETE', `/console/api/conversations/${id}`)
  })

  test('is its turns, oldest first, and stands at its last response', async () => {
    const { id } = await jsonOf<Conversation>(
      asked('POST', '/console/api/conversations', { title: ' River ' }),
    )
    const first = await said('one')
    const second = await said('two', first)
    const noted = await asked('PATCH', `/console/api/conversations/${id}`, { last_response: second })
    expect(await noted.json()).toMatchObject({ id, title: 'River', last_response: second })
    const { turns } = await jsonOf<Conversation>(asked('GET', `/console/api/conversations/${id}`))
    expect(turns.map(({ response }) => response.id)).toEqual([first, second])
    expect(turns.map(({ input }) => input.length)).toEqual([1, 1])
    const list = await jsonOf<{ data: Conversation[] }>(asked('GET', '/console/api/conversations'))
    expect(list.data[0]).toMatchObject({ id, title: 'River' })

    expect((await asked('DELETE', `/console/api/conversations/${id}`)).status).toBe(200)
    for (const gone of [
      `/console/api/conversations/${id}`,
      `/app/v1/responses/${second}`,
      `/app/v1/responses/${first}`,
    ])
      expect((await asked('GET', gone)).status).toBe(404)
  })

  test('that has grown larger than a body may be is shown all the same, and deleted with all its turns', async () => {
    const { id } = await jsonOf<Conversation>(asked('POST', '/console/api/conversations', { title: 'Long' }))
    const first = await said('river '.repeat(4_000))
    const second = await said('weir '.repeat(2_000), first)
    await asked('PATCH', `/console/api/conversations/${id}`, { last_response: second })
    const { turns } = await jsonOf<Conversation>(asked('GET', `/console/api/conversations/${id}`))
    expect(turns.map(({ response }) => response.id)).toEqual([first, second])
    expect((await asked('DELETE', `/console/api/conversations/${id}`)).status).toBe(200)
    for (const response of [first, second])
      expect((await asked('GET', `/app/v1/responses/${response}`)).status).toBe(404)
  })

  test('stands at an answer that named it, also when nobody notes it, and not at a failed one', async () => {
    const { id } = await jsonOf<Conversation>(asked('POST', '/console/api/conversations', { title: 'Left' }))
    const named = (model: string) =>
      fetch(`${weir.origin}/app/v1/responses`, {
        method: 'POST',
        headers: {
          cookie,
          origin: weir.origin,
          'content-type': 'application/json',
          'x-weir-conversation': id,
        },
        body: JSON.stringify({ model, input: 'one', stream: true }),
      }).then((response) => response.text())
    const events = await named('sim/echo')
    const [response] = /resp_\w+/.exec(events)!
    await named('sim/error-500')
    const shown = await jsonOf<Conversation>(asked('GET', `/console/api/conversations/${id}`))
    expect(shown).toMatchObject({ last_response: response, answering: false })
    expect(shown.turns.map((turn) => turn.response.id)).toEqual([response])
  })

  test('that is deleted while it is answered takes the answer with it', async () => {
    const { id } = await jsonOf<Conversation>(asked('POST', '/console/api/conversations', { title: 'Gone' }))
    const events = await fetch(`${weir.origin}/app/v1/responses`, {
      method: 'POST',
      headers: { cookie, origin: weir.origin, 'content-type': 'application/json', 'x-weir-conversation': id },
      body: JSON.stringify({ model: 'sim/slow', input: 'one', stream: true }),
    })
    expect((await asked('DELETE', `/console/api/conversations/${id}`)).status).toBe(200)
    const [response] = /resp_\w+/.exec(await events.text())!
    const receipt = await asked('GET', `/app/v1/generation?id=${response}`)
    expect(await receipt.json()).toMatchObject({ data: { state: 'settled' } })
    expect((await asked('GET', `/app/v1/responses/${response}`)).status).toBe(404)
  })

  test('of another account is not there, nor can its responses be named', async () => {
    const { id } = await jsonOf<Conversation>(asked('POST', '/console/api/conversations', { title: 'Mine' }))
    const mine = await said('secret')
    await weir.command('accounts', 'create', '--email', 'eve@example.org', '--json')
    const eve = await signedIn('eve@example.org')
    for (const [method, body] of [['GET'], ['PATCH', { title: 'Hers' }], ['DELETE']] as const)
      expect((await asked(method, `/console/api/conversations/${id}`, body, eve)).status).toBe(404)
    const hers = await jsonOf<Conversation>(
      asked('POST', '/console/api/conversations', { title: 'Hers' }, eve),
    )
    const taken = await asked('PATCH', `/console/api/conversations/${hers.id}`, { last_response: mine }, eve)
    expect(await taken.json()).toMatchObject({ error: { code: 'invalid_request', param: 'last_response' } })
  })

  test.each([
    [{ title: '' }, 'title'],
    [{ title: 'x'.repeat(201) }, 'title'],
    [{ title: 'x', account: 'another' }, 'account'],
  ])('is refused with %p, naming the field', async (body, param) => {
    const response = await asked('POST', '/console/api/conversations', body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param } })
  })

  test('is for who is signed in', async () => {
    expect((await asked('GET', '/console/api/conversations', undefined, '')).status).toBe(401)
  })
})

test('connect has a text for each client, with the address of this gateway and no key', async () => {
  interface Connect {
    base_url: string
    clients: { id: string; files: { text: string }[] }[]
  }
  const { base_url, clients } = await jsonOf<Connect>(asked('GET', '/console/api/connect'))
  expect(base_url).toEndWith(`:${weir.port}/v1`)
  expect(clients.length).toBeGreaterThan(10)
  for (const { files } of clients) {
    const texts = files.map(({ text }) => text).join('\n')
    expect(texts).toContain(base_url.replace(/\/v1$/, ''))
    expect(texts).toContain('{{key}}')
  }
})

test('a response of the app can be made in the background', async () => {
  const body = { model: 'sim/echo', input: 'Hello.', background: true }
  const { id, status } = await jsonOf<{ id: string; status: string }>(
    asked('POST', '/app/v1/responses', body),
  )
  expect(status).toBe('queued')
  const events = await (await asked('GET', `/app/v1/responses/${id}?stream=true`)).text()
  expect(events).toContain('event: response.completed')
  expect(await jsonOf(asked('GET', `/app/v1/responses/${id}`))).toMatchObject({
    status: 'completed',
    background: true,
  })
})
