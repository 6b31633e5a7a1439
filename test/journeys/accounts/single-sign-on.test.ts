// Single sign-on with a real OpenID Connect issuer on loopback: oidc-provider, with its own login and consent pages.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventually, runJson } from '../../support/call-gateway.ts'
import { startIssuer } from '../../support/oidc-issuer.ts'
import { SignOnBrowser } from '../../support/sign-on-browser.ts'
import { freePort, type ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const password = 'a river runs through it'
const publicUrl = 'http://localhost:8787'
const origin = publicUrl
let weir: ServedWeir
let issuer: string
let listening: { close(): void }

beforeAll(async () => {
  const port = await freePort()
  issuer = `http://127.0.0.1:${port}`
  listening = startIssuer(issuer, `${publicUrl}/console/api/oidc/callback`)
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      server: { public_url: publicUrl },
      accounts: {
        sign_up: 'open',
        sign_ups_per_network: 100,
        oidc: {
          issuer,
          client_id: 'weir',
          client_secret: 'secret',
          label: 'Staff',
          allowed_domains: ['example.org'],
          operator_claim: 'groups=weir-operators',
        },
      },
    }),
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  listening?.close()
})

/** Somebody who has signed up with a password. */
async function member(email: string, at = weir): Promise<SignOnBrowser> {
  const browser = new SignOnBrowser(at, publicUrl)
  await browser.client.post('sign-up', { email, password }, { origin })
  expect((await browser.client.post('sign-in', { email, password }, { origin })).status).toBe(200)
  return browser
}

test('somebody of the issuer gets an account with its verified address, and finds it again', async () => {
  const browser = new SignOnBrowser(weir, publicUrl)
  expect((await browser.client.session()).methods).toContain('oidc:Staff')
  const answer = await browser.signIn('anna')
  expect([answer.status, answer.headers.get('location')]).toEqual([302, '/console'])
  const { account, role } = await browser.client.session()
  expect({ account, role }).toMatchObject({
    role: 'user',
    account: { email: 'anna@example.org', email_verified: true, has_password: false },
  })
  const again = new SignOnBrowser(weir, publicUrl)
  await again.signIn('anna')
  expect((await again.client.session()).account?.id).toBe(account!.id)
})

test('the claim of operators makes one', async () => {
  const browser = new SignOnBrowser(weir, publicUrl)
  await browser.signIn('boss')
  expect(await browser.client.session()).toMatchObject({ role: 'operator' })
})

test('who becomes an operator by the claim keeps the identity that had it, and no other way in', async () => {
  const browser = await member('boss-2@example.org')
  await browser.link('clerk')
  await browser.link('boss-2')
  const { account, role } = await browser.client.session()
  expect({ account, role }).toMatchObject({ role: 'operator', account: { has_password: false } })
  expect((await browser.client.get('identities')).json['data']).toMatchObject([{ subject: 'boss-2' }])
  const clerk = new SignOnBrowser(weir, publicUrl)
  await clerk.signIn('clerk')
  expect(await clerk.client.session()).toMatchObject({
    role: 'user',
    account: { email: 'clerk@example.org' },
  })
  const again = new SignOnBrowser(weir, publicUrl)
  await again.signIn('boss-2')
  expect((await again.client.session()).account?.id).toBe(account!.id)
})

describe('S17', () => {
  test.each([
    ['unproven', 'sign_up_closed'],
    ['guest', 'sign_up_closed'],
  ])('%s is let in to nothing: %s', async (login, code) => {
    const browser = new SignOnBrowser(weir, publicUrl)
    const answer = await browser.signIn(login)
    expect(answer.headers.get('location')).toBe(`/console/sign-in#error=${code}`)
    expect(browser.client.cookie).toBe('')
  })

  test('an account that is there is not taken over by its address, but linked by whoever is signed in to it', async () => {
    const owner = await member('victim@example.org')
    const thief = new SignOnBrowser(weir, publicUrl)
    const refused = await thief.signIn('victim')
    expect(refused.headers.get('location')).toBe('/console/sign-in#error=identity_not_linked')
    const { account } = await owner.client.session()
    expect(await owner.link('victim')).toBe('/console/settings')
    const later = new SignOnBrowser(weir, publicUrl)
    await later.signIn('victim')
    expect((await later.client.session()).account?.id).toBe(account!.id)
  })

  test('a page of others links no identity to whoever is signed in, and neither does an old sign-in', async () => {
    const owner = await member('vera@example.org')
    const send = (more: object) => owner.client.post('identities/link', {}, { origin, ...more })
    expect((await send({ origin: 'https://evil.example' })).code).toBe('origin_not_allowed')
    expect((await send({ origin: null })).code).toBe('origin_not_allowed')
    const start = await owner.gateway('/console/api/oidc/start')
    expect(start.headers.get('location')).toBe('/console/settings')
    expect(owner.state).toBe('')
    const made = await weir.command('accounts', 'session', '--account', 'vera@example.org', '--json')
    owner.client.cookie = `weir_session=${(JSON.parse(made.stdout) as { token: string }).token}`
    expect((await send({})).code).toBe('elevation_required')
    expect((await owner.unlink({ issuer, subject: 'vera' })).code).toBe('elevation_required')
    owner.client.cookie = ''
    expect((await send({ origin })).code).toBe('not_signed_in')
  })

  test('what was begun for one account is not linked to another that is signed in by now', async () => {
    const owner = await member('wanda@example.org')
    const begun = await owner.gateway('/console/api/identities/link', {})
    const { url } = (await begun.json()) as { url: string }
    const back = await owner.atIssuer(url, 'wanda')
    owner.client.cookie = (await member('xenia@example.org')).client.cookie
    const answer = await owner.gateway(back.slice(publicUrl.length))
    expect(answer.headers.get('location')).toBe('/console/settings#error=invalid_ticket')
    expect((await owner.client.get('identities')).json).toEqual({ data: [] })
  })

  test('a code is of no use without the state of this browser, twice, or made up', async () => {
    const [browser, other] = [new SignOnBrowser(weir, publicUrl), new SignOnBrowser(weir, publicUrl)]
    const start = await browser.gateway('/console/api/oidc/start')
    const back = new URL(await browser.atIssuer(start.headers.get('location')!, 'berta'))
    const path = back.pathname + back.search
    const wrong = async (who: SignOnBrowser, to: string) => (await who.gateway(to)).headers.get('location')
    expect(await wrong(other, path)).toBe('/console/sign-in#error=invalid_ticket')
    other.state = browser.state.slice(0, -1)
    expect(await wrong(other, path)).toBe('/console/sign-in#error=invalid_ticket')
    const { state } = browser
    expect(await wrong(browser, path)).toBe('/console')
    browser.state = state
    expect(await wrong(browser, path)).toBe('/console/settings#error=invalid_ticket')
    const fresh = new SignOnBrowser(weir, publicUrl)
    await fresh.gateway('/console/api/oidc/start')
    const made = new URLSearchParams({
      code: 'made-up',
      state: fresh.state.slice(fresh.state.indexOf('=') + 1),
      iss: issuer,
    })
    expect(await wrong(fresh, `/console/api/oidc/callback?${made}`)).toBe(
      '/console/sign-in#error=wrong_credentials',
    )
    expect(fresh.client.cookie).toBe('')
  })
})

describe('the identities of an account', () => {
  const linked = async (browser: SignOnBrowser) => (await browser.client.get('identities')).json['data']

  test('are listed with the name of the single sign-on, and unlinked', async () => {
    const browser = await member('olga@example.org')
    expect(await linked(browser)).toEqual([])
    await browser.link('olga')
    await browser.link('olga')
    const row = { issuer, subject: 'olga', label: 'Staff', linked_at: expect.any(String) as string }
    expect(await linked(browser)).toEqual([row])
    const other = await member('paul@example.org')
    expect(await other.link('olga')).toBe('/console/settings#error=invalid_request')
    expect((await other.unlink({ issuer, subject: 'olga' })).status).toBe(404)
    expect((await browser.unlink({ issuer, subject: 'paul' })).status).toBe(404)
    const answer = await browser.unlink({ issuer, subject: 'olga' })
    expect(answer).toMatchObject({ status: 200, json: { issuer, subject: 'olga', unlinked: true } })
    expect(await linked(browser)).toEqual([])
    const again = await new SignOnBrowser(weir, publicUrl).signIn('olga')
    expect(again.headers.get('location')).toBe('/console/sign-in#error=identity_not_linked')
  })

  test('stay while they are the only way to sign in', async () => {
    const browser = new SignOnBrowser(weir, publicUrl)
    await browser.signIn('rosa')
    const refused = await browser.unlink({ issuer, subject: 'rosa' })
    const message = 'This is the only way to sign in to the account. Set a password first.'
    expect(refused).toMatchObject({ status: 400, json: { error: { message } } })
    await browser.link('rosa-2')
    expect(await linked(browser)).toHaveLength(2)
    const both = ['rosa', 'rosa-2'].map((subject) => browser.unlink({ issuer, subject }))
    expect((await Promise.all(both)).map(({ status }) => status).toSorted()).toEqual([200, 400])
    expect((await browser.client.post('password', { password }, { origin })).status).toBe(200)
    const [{ subject }] = (await linked(browser)) as [{ subject: string }]
    expect((await browser.unlink({ issuer, subject })).status).toBe(200)
    expect(await linked(browser)).toEqual([])
  })
})

test('an issuer that is gone stops no start, and is tried again', async () => {
  const config = JSON.stringify({
    local_servers: { discover: false },
    accounts: { oidc: { issuer: 'http://127.0.0.1:1', client_id: 'weir' } },
  })
  const here = await serveWeir({ config })
  try {
    for (let n = 0; n < 2; n++) {
      const answer = await fetch(`${here.origin}/console/api/oidc/start`, { redirect: 'manual' })
      expect(answer.headers.get('location')).toBe('/console/sign-in#error=overloaded')
    }
  } finally {
    await here.stop()
  }
})

test('an issuer that is gone while somebody signs in is no wrong password, and the log says why', async () => {
  const dying = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) => {
      const { origin: at } = new URL(url)
      const [authorize, token, keys] = ['authorize', 'token', 'keys'].map((path) => `${at}/${path}`)
      return Response.json({
        issuer: at,
        authorization_endpoint: authorize,
        token_endpoint: token,
        jwks_uri: keys,
        response_types_supported: ['code'],
      })
    },
  })
  const oidc = { issuer: dying.url.origin, client_id: 'weir' }
  const config = JSON.stringify({ local_servers: { discover: false }, accounts: { oidc } })
  const here = await serveWeir({ config })
  try {
    const start = await fetch(`${here.origin}/console/api/oidc/start`, { redirect: 'manual' })
    const state = new URL(start.headers.get('location')!).searchParams.get('state')!
    await dying.stop(true)
    const answer = await fetch(`${here.origin}/console/api/oidc/callback?code=any&state=${state}`, {
      redirect: 'manual',
      headers: { cookie: `weir_oidc_${here.port}=${state}` },
    })
    expect(answer.headers.get('location')).toBe('/console/sign-in#error=overloaded')
    const log = await eventually(
      async () => here.output(),
      (text) => text.includes('a single sign-on failed'),
    )
    expect(log).toContain('a single sign-on failed')
    expect(log).not.toContain(state)
  } finally {
    await here.stop()
    await dying.stop(true)
  }
})

describe.each(['user-info', 'address-only'] as const)(
  'an issuer that says in UserInfo what its ID token lacks (%s)',
  (says) => {
    let issuing: { close(): void }
    let here: ServedWeir

    beforeAll(async () => {
      const address = `http://127.0.0.1:${await freePort()}`
      issuing = startIssuer(address, `${publicUrl}/console/api/oidc/callback`, says)
      const oidc = {
        issuer: address,
        client_id: 'weir',
        client_secret: 'secret',
        scopes: ['email', 'profile', 'roles'],
        operator_claim: 'realm_access.roles=weir-operators',
        allowed_domains: ['example.org'],
      }
      here = await serveWeir({
        config: JSON.stringify({
          local_servers: { discover: false },
          server: { public_url: publicUrl },
          accounts: { sign_up: 'open', oidc },
        }),
      })
    }, 30_000)

    afterAll(async () => {
      await here?.stop()
      issuing?.close()
    })

    const signsIn = async (login: string) => {
      const browser = new SignOnBrowser(here, publicUrl)
      const answer = await browser.signIn(login)
      return { location: answer.headers.get('location'), ...(await browser.client.session()) }
    }
    const logged = (text: string) =>
      eventually(
        async () => here.output(),
        (output) => output.includes(text),
      )

    test.each(['anna', 'textual'])('opens an account for %s, and finds it again', async (login) => {
      const { account } = await signsIn(login)
      expect(account).toMatchObject({ email: `${login}@example.org`, email_verified: true })
      expect((await signsIn(login)).account?.id).toBe(account!.id)
    })

    test('opens no account while UserInfo fails, but an account that is linked signs in', async () => {
      expect((await signsIn('failing')).location).toBe('/console/sign-in#error=overloaded')
      const owner = await member('owner@example.org', here)
      expect(await owner.link('failing')).toBe('/console/settings')
      const { account } = await owner.client.session()
      expect((await signsIn('failing')).account?.id).toBe(account!.id)
      expect(await logged('UserInfo of the single sign-on cannot be read')).toContain('realm_access.roles')
    })

    test('makes an operator of whoever has the role, which is named by its path', async () => {
      expect(await signsIn('boss')).toMatchObject({ role: 'operator' })
      expect(await signsIn('clerk')).toMatchObject({ role: 'user' })
    })

    test.each([
      ['unproven', 'sign_up_closed', 'email_verified is not true'],
      [
        'silent',
        'sign_up_closed',
        'there is no claim email_verified (in the ID token or UserInfo, scopes openid email',
      ],
      [
        'nameless',
        'sign_up_closed',
        'there is no claim email (in the ID token or UserInfo, scopes openid email',
      ],
      ['guest', 'sign_up_closed', 'the domain elsewhere.example is not among accounts.oidc.allowed_domains'],
      ['subjectless', 'wrong_credentials', 'UserInfo is not of the subject of the ID token'],
      ['forged', 'wrong_credentials', 'UserInfo is not of the subject of the ID token'],
    ])('%s is let in to nothing (%s), and the log says why: %s', async (login, code, reason) => {
      const { location, account } = await signsIn(login)
      expect({ location, account }).toEqual({ location: `/console/sign-in#error=${code}`, account: null })
      expect(await logged(reason)).toContain(reason)
    })

    test('S17 an address of the ID token is not proven by what UserInfo says of another', async () => {
      const { location, account } = await signsIn('swapped')
      // Where only UserInfo has an address, that is the one.
      const opened = says === 'user-info'
      expect(location).toBe(opened ? '/console' : '/console/sign-in#error=sign_up_closed')
      expect(account?.email).toBe(opened ? 'victim@example.org' : undefined)
    })
  },
)

describe('an issuer whose addresses count though it says nothing of them', () => {
  test('opens accounts, but not where it says that an address is unproven; a claim may have dots in its name', async () => {
    const address = `http://127.0.0.1:${await freePort()}`
    const issuing = startIssuer(address, `${publicUrl}/console/api/oidc/callback`)
    const here = await serveWeir({
      env: {
        WEIR_ACCOUNTS_OIDC_SCOPES: 'email, roles',
        WEIR_ACCOUNTS_OIDC_ASSUME_VERIFIED: 'true',
        WEIR_ACCOUNTS_OIDC_OPERATOR_CLAIM: 'https://example.org/role.of=operator',
      },
      config: JSON.stringify({
        local_servers: { discover: false },
        server: { public_url: publicUrl },
        accounts: { oidc: { issuer: address, client_id: 'weir', client_secret: 'secret' } },
      }),
    })
    try {
      const ends = await Promise.all(
        ['silent', 'unproven', 'boss'].map(async (login) => {
          const browser = new SignOnBrowser(here, publicUrl)
          const answer = await browser.signIn(login)
          return [answer.headers.get('location'), (await browser.client.session()).role]
        }),
      )
      expect(ends).toEqual([
        ['/console', 'user'],
        ['/console/sign-in#error=sign_up_closed', null],
        ['/console', 'operator'],
      ])
    } finally {
      await here.stop()
      issuing.close()
    }
  }, 30_000)
})

test('an account that a directory has opened is that of whom the issuer proves to have its address', async () => {
  const made = await runJson(
    weir,
    'keys',
    'create',
    '--management',
    '--scope',
    'scim',
    '--account',
    'owner@localhost',
  )
  const response = await fetch(`${weir.origin}/scim/v2/Users`, {
    method: 'POST',
    headers: { authorization: `Bearer ${String(made['key'])}`, 'content-type': 'application/scim+json' },
    body: JSON.stringify({
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
      userName: 'provisioned@example.org',
    }),
  })
  const { id } = (await response.json()) as { id: string }
  const browser = new SignOnBrowser(weir, publicUrl)
  expect((await browser.signIn('provisioned')).headers.get('location')).toBe('/console')
  expect((await browser.client.session()).account).toMatchObject({ id })
})
