import { expect } from 'bun:test'
import { type ConsoleAnswer, ConsoleClient } from './console-client.ts'
import type { ServedWeir } from './run-weir.ts'

/** A browser between the gateway and the issuer: keeps the cookies of both, and fills the issuer's forms in. */
export class SignOnBrowser {
  readonly #weir: ServedWeir
  readonly #publicUrl: string
  readonly client: ConsoleClient
  readonly #issuers = new Map<string, string>()
  /** The cookie that keeps the state. */
  state = ''

  /** `publicUrl` is the gateway's `server.public_url`. */
  constructor(weir: ServedWeir, publicUrl: string) {
    this.#weir = weir
    this.#publicUrl = publicUrl
    this.client = new ConsoleClient(weir)
  }

  async gateway(path: string, body?: object): Promise<Response> {
    const cookie = [this.client.cookie, this.state].filter(Boolean).join('; ')
    const response = await fetch(`${this.#weir.origin}${path}`, {
      redirect: 'manual',
      headers: { cookie, origin: this.#publicUrl, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
    for (const set of response.headers.getSetCookie()) {
      const pair = set.slice(0, set.indexOf(';'))
      if (pair.startsWith('weir_oidc_')) this.state = pair
      else this.client.cookie = pair
    }
    return response
  }

  /** From the issuer's first page to the address it sends the browser back to. */
  async atIssuer(from: string, login: string): Promise<string> {
    let [url, form] = [from, undefined as string | undefined]
    for (let step = 0; step < 20; step++) {
      const cookie = [...this.#issuers].map(([name, value]) => `${name}=${value}`).join('; ')
      const response = await fetch(url, {
        redirect: 'manual',
        method: form === undefined ? 'GET' : 'POST',
        headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' },
        ...(form === undefined ? {} : { body: form }),
      })
      for (const set of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!
        this.#issuers.set(name!, value!)
      }
      const location = response.headers.get('location')
      if (location !== null) {
        ;[url, form] = [new URL(location, url).href, undefined]
        if (url.startsWith(this.#publicUrl)) return url
        continue
      }
      const prompt = /name="prompt" value="(\w+)"/.exec(await response.text())?.[1]
      expect(prompt).toBeDefined()
      form = new URLSearchParams({ prompt: prompt!, login, password: 'any' }).toString()
    }
    throw new Error('the issuer never came to an end')
  }

  async signIn(login: string): Promise<Response> {
    const start = await this.gateway('/console/api/oidc/start')
    expect(start.status).toBe(302)
    const back = await this.atIssuer(start.headers.get('location')!, login)
    return this.gateway(back.slice(this.#publicUrl.length))
  }

  /** Links an identity to the account that is signed in; the address that the browser ends at. */
  async link(login: string): Promise<string | null> {
    this.#issuers.clear()
    const begun = await this.gateway('/console/api/identities/link', {})
    expect(begun.status).toBe(200)
    const { url } = (await begun.json()) as { url: string }
    const back = await this.atIssuer(url, login)
    return (await this.gateway(back.slice(this.#publicUrl.length))).headers.get('location')
  }

  unlink(body: object): Promise<ConsoleAnswer> {
    return this.client.send('DELETE', 'identities', body, { origin: this.#publicUrl })
  }
}
