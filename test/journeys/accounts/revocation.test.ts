// Revoked is ended: when a key, a session or an account ends, so do its running calls, settled for what was delivered;
// and once whoever ended it has the answer, no process serves another, however often the key was just used.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { codeIn, type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'
import { ConsoleClient } from '../../support/console-client.ts'

// Each test runs commands in processes of their own.
setDefaultTimeout(60_000)

interface Access {
  readonly account: string
  readonly email: string
  readonly key: string
  readonly keyId: string
}

const words = 2_000

describe('an end of rights', () => {
  let mock: MockProvider
  let paced: Provider
  let lab: Lab
  let management: string

  beforeAll(async () => {
    mock = await startMockProvider({
      fault: (_, { model }) => (model === 'hang' ? { kind: 'hang', at: 'before-headers' } : undefined),
    })
    paced = startPacedProvider(
      Array.from({ length: words }, () => 'word '),
      10,
    )
    lab = await startLab({
      providers: { mock: mock.url, paced: paced.url },
      models: { 'mock/m': ['mock/m'], 'mock/hang': ['mock/hang'], 'paced/m': ['paced/m'] },
      settings: { keys: { freeze_after_networks: 2 }, server: { trusted_proxies: ['127.0.0.1'] } },
    })
    management = (
      await command<{ key: string }>('keys', 'create', '--management', '--account', 'owner@localhost')
    ).key
  })
  afterAll(async () => {
    await lab.weir.stop()
    await mock.stop()
    paced.stop()
  })

  const command = <Result>(...given: string[]) => runJson<Result>(lab.weir, ...given)

  async function admin(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const response = await fetch(`${lab.weir.origin}/admin/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${management}`, 'content-type': 'application/json' },
      keepalive: false,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const json = (await response.json()) as Record<string, unknown>
    expect({ status: response.status < 300, json }).toMatchObject({ status: true })
    return json
  }

  /** A new account with credit and a key. */
  async function opened(): Promise<Access> {
    const email = `${crypto.randomUUID()}@example.org`
    const { id: account } = (await admin('POST', 'accounts', { email })) as { id: string }
    await admin('POST', `accounts/${account}/grant`, { pool: 'purchased', usd: '5' })
    const made = (await admin('POST', `accounts/${account}/keys`, { name: 'one' })) as {
      id: string
      key: string
    }
    return { account, email, key: made.key, keyId: made.id }
  }

  /** Posts on a connection of its own. */
  function post(secret: string, body: object, path = '/v1/chat/completions'): Promise<Response> {
    return postAs(
      `${lab.weir.origin}${path}`,
      secret,
      { messages: [{ role: 'user', content: 'Where does it run?' }], ...body },
      { keepalive: false },
    )
  }

  /** Streams until the first words are there; `text` resolves with all of it. */
  async function streaming(secret: string, path?: string) {
    const response = await post(secret, { model: 'paced/m', stream: true, max_tokens: words }, path)
    const id = response.headers.get('x-request-id')!
    const begun = Promise.withResolvers<void>()
    const text = (async () => {
      let all = ''
      const decoder = new TextDecoder()
      for await (const bytes of response.body!) {
        all += decoder.decode(bytes, { stream: true })
        if (wordsIn(all) !== '') begun.resolve()
      }
      begun.resolve()
      return all
    })()
    await begun.promise
    return { id, text }
  }

  /** A whole call that its provider never answers, once it has been asked. */
  async function whole(secret: string, path?: string): Promise<Promise<Response>[]> {
    const before = mock.bill.length
    const answer = post(secret, { model: 'mock/hang' }, path)
    await until(() => mock.bill.length > before)
    return [answer]
  }

  async function answersOf(secret: string, path?: string): Promise<(string | undefined)[]> {
    const tries = Array.from({ length: 12 }, () => post(secret, { model: 'mock/m', max_tokens: 5 }, path))
    return Promise.all(tries.map(async (answer) => codeIn(await (await answer).text()) ?? 'served'))
  }

  async function heldOf(account: string): Promise<string> {
    const { data } = (await admin('GET', `accounts/${account}`)) as { data: { credits: { held: string } } }
    return data.credits.held
  }

  /** What a reporter of a key is answered. */
  async function reported(key: string): Promise<readonly [number, unknown]> {
    const response = await fetch(`${lab.weir.origin}/v1/keys/leaked`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ key }),
    })
    return [response.status, await response.json()]
  }

  test('a key that was reported is refused everywhere, and its owner resumes or replaces it', async () => {
    const { key, keyId, account } = await opened()
    expect(new Set(await answersOf(key))).toEqual(new Set(['served']))
    const unknown = await reported(`${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`)
    expect(unknown).toEqual([202, { received: true }])
    expect(new Set(await answersOf(key))).toEqual(new Set(['served']))
    expect(await reported(key)).toEqual(unknown)
    await until(
      async () => new Set(await answersOf(key)),
      (codes) => codes.size === 1 && codes.has('api_key_paused'),
    )
    expect(await (await post(key, { model: 'mock/m' })).text()).toContain('it was reported as leaked')
    const { data } = (await admin('GET', `accounts/${account}/keys`)) as { data: object[] }
    expect(data).toMatchObject([{ id: keyId, state: 'paused', paused_by: 'leak' }])
    const next = (await admin('POST', `accounts/${account}/keys/${keyId}/rotate`, {})) as { key: string }
    expect(new Set(await answersOf(next.key))).toEqual(new Set(['served']))
  })

  test('a key that is used from too many networks in an hour is frozen, whichever process serves it', async () => {
    const { key, keyId, account } = await opened()
    const callFrom = async (address: string) => {
      const body = { model: 'mock/m', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }
      const headers = { 'x-forwarded-for': address }
      const target = `${lab.weir.origin}/v1/chat/completions`
      return codeIn(await (await postAs(target, key, body, { headers, keepalive: false })).text()) ?? 'served'
    }
    for (let call = 0; call < 12; call++) expect(await callFrom(`203.0.${call % 2}.${call}`)).toBe('served')
    await callFrom('198.51.100.7')
    await until(
      () => callFrom('203.0.0.1'),
      (code) => code === 'api_key_paused',
    )
    await admin('POST', `accounts/${account}/keys/${keyId}/resume`, {})
    expect(await callFrom('203.0.0.1')).toBe('served')
  })

  /** Ends the access while calls run, and gives what became of them and of new ones. */
  async function ended(of: Access, secret: string, end: () => Promise<unknown>, path?: string) {
    expect(new Set(await answersOf(secret, path))).toEqual(new Set(['served']))
    const streams = [await streaming(secret, path), await streaming(secret, path)]
    const [waits] = await whole(secret, path)
    await end()
    const next = await answersOf(secret, path)
    const texts = await Promise.all(streams.map(({ text }) => text))
    const late = await (await waits!).text()
    expect(
      texts.map((text) => text.endsWith('data: [DONE]\n\n') && wordsIn(text).length >= words * 5),
    ).toEqual([false, false])
    expect(
      await until(
        () => heldOf(of.account),
        (held) => Number(held) === 0,
      ),
    ).toBeDefined()
    return { next: [...new Set(next)], running: [...new Set([...texts, late].map(codeIn))], streams }
  }

  test('a command that revokes a key', async () => {
    const of = await opened()
    const { next, running, streams } = await ended(of, of.key, () => command('keys', 'revoke', of.keyId))
    expect([next, running]).toEqual([['api_key_revoked'], ['api_key_revoked']])
    const wide = { name: 'two', sees: 'all' }
    const fresh = (await admin('POST', `accounts/${of.account}/keys`, wide)) as { key: string }
    const receipt = await getAs(`${lab.weir.origin}/v1/generation?id=${streams[0]!.id}`, fresh.key)
    const { data } = (await receipt.json()) as { data: Record<string, unknown> }
    expect(data).toMatchObject({ state: 'settled', ending: 'stopped' })
    // For what was delivered, and no more.
    expect(Number(data['charged'])).toBeGreaterThan(0)
    expect(Number(data['charged'])).toBeLessThan((words / 2) * 0.000002)
  })

  test('a command that suspends an account', async () => {
    const of = await opened()
    const { next, running } = await ended(of, of.key, () => command('accounts', 'suspend', of.email))
    expect([next, running]).toEqual([['account_suspended'], ['account_suspended']])
    await command('accounts', 'resume', of.email)
    expect(new Set(await answersOf(of.key))).toEqual(new Set(['served']))
  })

  test('a command that ends a session', async () => {
    const of = await opened()
    const session = await command<{ id: string; token: string }>('accounts', 'session', '--account', of.email)
    const path = '/app/v1/chat/completions'
    const end = () => command('accounts', 'end-session', session.id)
    const { next, running } = await ended(of, session.token, end, path)
    expect([next, running]).toEqual([['api_key_revoked'], ['api_key_revoked']])
    // What else acts for the account goes on.
    expect(new Set(await answersOf(of.key))).toEqual(new Set(['served']))
  })

  test('a command that rotates a key: the successor is served', async () => {
    const of = await opened()
    let successor = ''
    const { next, running } = await ended(of, of.key, async () => {
      successor = (await command<{ key: string }>('keys', 'rotate', of.keyId)).key
    })
    expect([next, running]).toEqual([['api_key_revoked'], ['api_key_revoked']])
    expect(new Set(await answersOf(successor))).toEqual(new Set(['served']))
  })

  test('a rotation with an overlap: what still runs at its end is ended', async () => {
    const of = await opened()
    const stream = await streaming(of.key)
    await command('keys', 'rotate', of.keyId, '--overlap', '2s')
    expect(codeIn(await stream.text)).toBe('api_key_expired')
    expect(new Set(await answersOf(of.key))).toEqual(new Set(['api_key_expired']))
  })

  test('an operator who revokes a key by the admin API', async () => {
    const of = await opened()
    const end = () => admin('DELETE', `accounts/${of.account}/keys/${of.keyId}`)
    const { next, running } = await ended(of, of.key, end)
    expect([next, running]).toEqual([['api_key_revoked'], ['api_key_revoked']])
  })

  test('an operator who pauses a key by the admin API, until it is resumed', async () => {
    const of = await opened()
    const path = `accounts/${of.account}/keys/${of.keyId}`
    const { next, running, streams } = await ended(of, of.key, () => admin('POST', `${path}/pause`, {}))
    expect([next, running]).toEqual([['api_key_paused'], ['api_key_paused']])
    expect(await command('keys', 'resume', of.keyId)).toMatchObject({ state: 'active' })
    expect(new Set(await answersOf(of.key))).toEqual(new Set(['served']))
    // It still reads the calls that it made before.
    const receipt = await getAs(`${lab.weir.origin}/v1/generation?id=${streams[0]!.id}`, of.key)
    expect(await receipt.json()).toMatchObject({ data: { state: 'settled' } })
  })

  test('an operator who suspends an account by the admin API', async () => {
    const of = await opened()
    const end = () => admin('POST', `accounts/${of.account}/suspend`, {})
    const { next, running } = await ended(of, of.key, end)
    expect([next, running]).toEqual([['account_suspended'], ['account_suspended']])
  })

  test('the owner of an account who deletes it', async () => {
    const of = await opened()
    const client = new ConsoleClient(lab.weir)
    const { url } = await command<{ url: string }>('accounts', 'link', '--account', of.email)
    await client.follow(url)
    const end = () => client.send('DELETE', 'account', { confirm: of.email })
    expect(new Set(await answersOf(of.key))).toEqual(new Set(['served']))
    const stream = await streaming(of.key)
    expect((await end()).status).toBe(200)
    expect(new Set(await answersOf(of.key))).toEqual(new Set(['api_key_revoked']))
    expect(codeIn(await stream.text)).toBe('api_key_revoked')
  })
})
