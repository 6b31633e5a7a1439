// Passkeys, in a browser with an authenticator of its own: registered by an invited person, then the way in.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { withAuthenticator } from '../../console/visitor.ts'
import { closePages, sharedBrowser } from '../../support/browser.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let browser: Browser
let page: Page

beforeAll(async () => {
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
  browser = await sharedBrowser()
  page = await browser.newPage()
  await page.goto(`http://localhost:${weir.port}/console`)
  await withAuthenticator(page)
}, 60_000)

afterAll(async () => {
  await closePages()
  await weir?.stop()
})

interface Said {
  readonly status: number
  readonly json: Record<string, unknown>
}

/** Asks the API as the page does. */
function ask(path: string, body: unknown, method = 'POST'): Promise<Said> {
  return page.evaluate(
    async ([to, how, what]) => {
      const init = {
        method: how,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(what),
      }
      const response = await fetch(`/console/api/${to}`, how === 'GET' ? {} : init)
      return { status: response.status, json: (await response.json()) as Record<string, unknown> }
    },
    [path, method, body] as const,
  )
}

/** What the authenticator answers to options of the gateway. */
function credential(kind: 'create' | 'get', options: unknown): Promise<Record<string, unknown>> {
  return page.evaluate(
    async ([what, from]) => {
      const given = from as never
      const made =
        what === 'create'
          ? await navigator.credentials.create({
              publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(given),
            })
          : await navigator.credentials.get({
              publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(given),
            })
      return (made as unknown as { toJSON(): Record<string, unknown> }).toJSON()
    },
    [kind, options] as const,
  )
}

test('an invited person registers a passkey, signs in with it, proves itself by it, and removes it', async () => {
  const invited = await weir.command('accounts', 'invite', '--email', 'anna@example.org', '--json')
  const { url } = JSON.parse(invited.stdout) as { url: string }
  const entered = await ask('link', { token: new URL(url).hash.slice(1) })
  expect(entered).toMatchObject({
    status: 200,
    json: { methods: ['password', 'passkey'], account: { passkeys: 0 } },
  })

  const options = await ask('passkeys/options', {})
  const made = await credential('create', options.json)
  expect(await ask('passkeys', { response: made, name: 'laptop' })).toMatchObject({
    status: 201,
    json: { name: 'laptop', last_used_at: null },
  })
  // The challenge has been used.
  expect(await ask('passkeys', { response: made, name: 'again' })).toMatchObject({ status: 400 })

  expect(await ask('sign-out', {})).toMatchObject({ status: 200, json: { account: null } })
  const challenge = await ask('passkeys/challenge', {})
  const signed = await credential('get', challenge.json)
  expect(await ask('passkeys/sign-in', { response: signed })).toMatchObject({
    status: 200,
    json: { account: { email: 'anna@example.org', passkeys: 1 } },
  })
  const replayed = await new ConsoleClient(weir).post('passkeys/sign-in', { response: signed })
  expect(replayed).toMatchObject({ status: 401, code: 'wrong_credentials' })

  const fresh = await credential('get', (await ask('passkeys/challenge', {})).json)
  expect(await ask('elevate', { passkey: fresh })).toMatchObject({ status: 200 })
  const { data } = (await ask('passkeys', undefined, 'GET')).json as {
    data: { id: string; last_used_at: string | null }[]
  }
  expect(data).toMatchObject([{ name: 'laptop', last_used_at: expect.any(String) }])
  const path = `passkeys/${data[0]!.id}`
  expect(await ask(path, { name: 'desk' }, 'PATCH')).toMatchObject({ status: 200, json: { name: 'desk' } })
  const last = await ask(path, {}, 'DELETE')
  expect(last).toMatchObject({ status: 400, json: { error: { code: 'invalid_request' } } })
  expect(await ask('password', { password: 'a long enough passphrase' })).toMatchObject({ status: 200 })
  expect(await ask(path, {}, 'DELETE')).toMatchObject({ status: 200, json: { deleted: true } })
  const late = await credential('get', (await ask('passkeys/challenge', {})).json)
  expect(await ask('passkeys/sign-in', { response: late })).toMatchObject({ status: 401 })
}, 30_000)

test('a signature for another challenge, origin or account proves nothing', async () => {
  const invited = await weir.command('accounts', 'invite', '--email', 'berta@example.org', '--json')
  await ask('link', { token: new URL((JSON.parse(invited.stdout) as { url: string }).url).hash.slice(1) })
  const made = await credential('create', (await ask('passkeys/options', {})).json)
  await ask('passkeys', { response: made })
  const options = (await ask('passkeys/challenge', {})).json
  const foreign = await credential('get', {
    ...options,
    challenge: Buffer.from('made up').toString('base64url'),
  })
  expect(await ask('passkeys/sign-in', { response: foreign })).toMatchObject({ status: 401 })
  const signed = await credential('get', options)
  const answer = signed['response'] as Record<string, string>
  const data = JSON.parse(Buffer.from(answer['clientDataJSON']!, 'base64url').toString()) as object
  const moved = Buffer.from(JSON.stringify({ ...data, origin: 'https://evil.example' })).toString('base64url')
  const forged = { ...signed, response: { ...answer, clientDataJSON: moved } }
  expect(await ask('passkeys/sign-in', { response: forged })).toMatchObject({ status: 401 })
  for (const response of [{}, { id: 5 }, { id: "' OR 1=1--" }, { ...signed, response: {} }])
    expect(await ask('passkeys/sign-in', { response })).toMatchObject({ status: 401 })
  // One's own passkey does not prove another's identity.
  const carla = await weir.command('accounts', 'invite', '--email', 'carla@example.org', '--json')
  await ask('link', { token: new URL((JSON.parse(carla.stdout) as { url: string }).url).hash.slice(1) })
  const bertas = await credential('get', (await ask('passkeys/challenge', {})).json)
  expect(await ask('elevate', { passkey: bertas })).toMatchObject({ status: 401 })
}, 30_000)

test('there are none at a bare address', async () => {
  const at = await serveWeir({ config: 'server: { public_url: "http://127.0.0.1:8787" }' })
  try {
    const client = new ConsoleClient(at)
    expect((await client.session()).methods).toEqual(['password'])
    const answer = await client.post('passkeys/challenge', {}, { origin: 'http://127.0.0.1:8787' })
    expect(answer).toMatchObject({ status: 400, code: 'invalid_request' })
  } finally {
    await at.stop()
  }
})
