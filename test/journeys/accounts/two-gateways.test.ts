// One browser, two gateways on one host: cookies know no ports.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const password = 'a river runs through it'
const email = 'anna@example.org'
let one: ServedWeir
let other: ServedWeir
beforeAll(async () => {
  ;[one, other] = await Promise.all([serveWeir(), serveWeir()])
})
afterAll(async () => {
  await Promise.all([one?.stop(), other?.stop()])
})

/** A browser's cookies of one host, as it sends them to each port. */
class Jar {
  readonly #cookies = new Map<string, string>()

  set(name: string, value: string): void {
    this.#cookies.set(name, value)
  }

  valueOf(weir: ServedWeir): string | undefined {
    return this.#cookies.get(`weir_session_${weir.port}`)
  }

  async send(weir: ServedWeir, method: string, path: string, body?: object): Promise<Response> {
    const response = await fetch(`${weir.origin}/console/api/${path}`, {
      method,
      headers: {
        cookie: [...this.#cookies].map((pair) => pair.join('=')).join('; '),
        origin: `http://localhost:${weir.port}`,
        'content-type': 'application/json',
      },
      body: body === undefined ? null : JSON.stringify(body),
    })
    for (const set of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      if (/Max-Age=0(;|$)/.test(set)) this.#cookies.delete(name)
      else this.#cookies.set(name, value)
    }
    return response
  }

  async isSignedIn(weir: ServedWeir): Promise<boolean> {
    const { account } = (await (await this.send(weir, 'GET', 'session')).json()) as { account: unknown }
    return account !== null
  }
}

async function signIn(jar: Jar, weir: ServedWeir): Promise<void> {
  await jar.send(weir, 'POST', 'sign-up', { email, password })
  expect((await jar.send(weir, 'POST', 'sign-in', { email, password })).status).toBe(200)
}

test('signing in at one, and out, leaves the session at the other', async () => {
  const jar = new Jar()
  await signIn(jar, one)
  await signIn(jar, other)
  expect([await jar.isSignedIn(one), await jar.isSignedIn(other)]).toEqual([true, true])
  await jar.send(other, 'POST', 'sign-out', {})
  expect([await jar.isSignedIn(one), await jar.isSignedIn(other)]).toEqual([true, false])
})

test('a session under the cookie of earlier versions goes on, and ends when it is signed out', async () => {
  const before = new Jar()
  await signIn(before, one)
  const jar = new Jar()
  jar.set('weir_session', before.valueOf(one)!)
  expect([await jar.isSignedIn(one), await jar.isSignedIn(other)]).toEqual([true, false])
  expect(jar.valueOf(one)).toBe(before.valueOf(one)!)
  // The other one does not take it away.
  expect(await jar.isSignedIn(one)).toBe(true)
  await jar.send(one, 'POST', 'sign-out', {})
  expect(await jar.isSignedIn(one)).toBe(false)
})
