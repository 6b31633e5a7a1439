// Sign-up, sign-in, sign-out, passwords, links and sessions of the console.

import type { OpenedSession, Visitor } from '../../accounts/identity/identities.ts'
import {
  type LinkedIdentity,
  type Passkey,
  ticketLife,
  type UsableWays,
} from '../../accounts/identity/identity-store.ts'
import { SignOnRefusal } from '../../accounts/identity/oidc.ts'
import { formatUsd } from '../../credits/money.ts'
import { asGatewayError, GatewayError } from '../../errors/errors.ts'
import {
  cookieName,
  cookieOf,
  type CookieSite,
  sessionCookie,
  setCookie,
  setSessionCookie,
  sitePath,
} from '../intake/caller.ts'
import type { HttpParts } from '../parts.ts'
import {
  type ConsoleAsked,
  type SignedInAsked,
  type ConsoleRoute,
  iso,
  isoOrNull,
  ownRoute,
  publicRoute,
  type SignedInAccount,
} from './route.ts'
import type { IdentityView, OpenSessionView, PasskeyView, SessionView } from './answers.ts'
import {
  confirmResetBody,
  credentialsBody,
  deleteAccountBody,
  elevateBody,
  emptyBody,
  passkeyBody,
  passwordBody,
  provePasskeyBody,
  renamePasskeyBody,
  resetBody,
  tokenBody,
  unlinkBody,
} from './bodies.ts'

export const sessionRoutes: readonly ConsoleRoute[] = [
  publicRoute('GET session', { summary: 'Who is signed in, and how one may sign in' }, async (asked) => {
    const { parts, request, signedIn } = asked
    const view = await sessionView(parts, signedIn)
    const text = sessionCookie(request, parts.site)
    if (text === undefined) return view
    // The cookie lasts as long as the session, which is extended while it is used.
    const restMs = signedIn ? signedIn.session.expiresAt - parts.now() : 0
    return withCookie(parts, view, signedIn ? text : '', restMs)
  }),
  publicRoute(
    'POST sign-up',
    { summary: 'Open an account', status: 202, errors: ['sign_up_closed'], body: credentialsBody },
    async ({ parts: { identities }, body, visitor }) => {
      await identities.signUp(body.email, body.password, visitor)
      return acceptedAnswer(identities.mails)
    },
  ),
  publicRoute(
    'POST sign-in',
    {
      summary: 'Sign in by password',
      errors: ['wrong_credentials', 'account_suspended', 'sign_in_closed'],
      body: credentialsBody,
    },
    async (asked) => {
      const { parts, body, visitor } = asked
      return enterSession(asked, await parts.identities.signIn(body.email, body.password, visitor))
    },
  ),
  publicRoute(
    'POST sign-out',
    { summary: 'End this session', body: emptyBody },
    async ({ parts, signedIn }) => {
      if (signedIn) await parts.identities.endSession(signedIn.account, signedIn.session.id)
      return leaveSession(parts)
    },
  ),
  ownRoute(
    'POST password',
    {
      summary: 'Set a password',
      errors: ['wrong_credentials', 'elevation_required', 'sign_in_closed'],
      body: passwordBody,
    },
    async (asked) => {
      const { parts, account, session, body, visitor } = asked
      const wanted = { password: body.password, current: body.current }
      return enterSession(asked, await parts.identities.changePassword(account, session, wanted, visitor))
    },
  ),
  publicRoute(
    'POST reset',
    {
      summary: 'Ask for a link to set a new password',
      status: 202,
      errors: ['sign_in_closed'],
      body: resetBody,
    },
    ({ parts: { identities }, body }) => {
      identities.requestReset(body.email)
      return acceptedAnswer(identities.mails)
    },
  ),
  publicRoute(
    'POST reset/confirm',
    {
      summary: 'Set a new password by a link, also by one that confirms an address',
      errors: ['invalid_ticket', 'sign_in_closed'],
      body: confirmResetBody,
    },
    async (asked) => {
      const { parts, body, visitor } = asked
      return enterSession(asked, await parts.identities.confirmReset(body.token, body.password, visitor))
    },
  ),
  publicRoute(
    'POST verify',
    {
      summary: 'Confirm an address by a link, signed in to its account',
      errors: ['invalid_ticket'],
      body: tokenBody,
    },
    async ({ parts, body, signedIn }) => ({
      email_verified: await parts.identities.verify(body.token, signedIn?.account),
    }),
  ),
  publicRoute(
    'POST link',
    {
      summary: 'Sign in by a link or an invitation',
      errors: ['invalid_ticket', 'sign_in_closed'],
      body: tokenBody,
    },
    async (asked) =>
      enterSession(asked, await asked.parts.identities.follow(asked.body.token, asked.visitor)),
  ),
  ownRoute(
    'POST elevate',
    { summary: 'Prove again who one is', errors: ['wrong_credentials', 'sign_in_closed'], body: elevateBody },
    async ({ parts, account, session, body, visitor }) => {
      if ('password' in body) await parts.identities.elevate(account, session, body.password, visitor)
      else {
        const proven = await parts.passkeys.prove(body.passkey)
        if (proven.id !== account.id) throw new GatewayError('wrong_credentials')
        await parts.identities.requireElevated(session)
      }
      return sessionView(parts, await current(parts, session.id))
    },
  ),
  ownRoute('GET sessions', { summary: 'The open sessions' }, listSessions),
  ownRoute(
    'DELETE sessions/:id',
    { summary: 'End a session' },
    async ({ parts, account, session, params }) => {
      const id = params['id']!
      await parts.identities.endSession(account, id)
      const ended = { id, ended: true }
      return id === session.id ? withCookie(parts, ended, '', 0) : ended
    },
  ),
  ownRoute(
    'DELETE account',
    { summary: 'Delete the account', elevated: true, body: deleteAccountBody },
    async ({ parts, account, body }) => {
      if (body.confirm.trim().toLowerCase() !== account.email)
        throw new GatewayError('invalid_request', {
          message: 'Confirm with the address of the account.',
          param: 'confirm',
        })
      // Whoever comes back by the single sign-on would have the whole line again.
      const { debt, creditLine } = await parts.ledger.balance(account.id)
      if (debt > 0n && creditLine > 0n)
        throw new GatewayError('invalid_request', {
          message: `This account owes ${formatUsd(debt)} USD. Buy credit that pays it first, or ask whoever runs this gateway to delete it.`,
        })
      await parts.identities.remove(account)
      await parts.eraseContents(account.id)
      return leaveSession(parts)
    },
  ),
]

/** The same answer for everybody: whether an account exists is not disclosed. */
function acceptedAnswer(mail: boolean) {
  return { status: 'accepted', mail }
}

/** Answers a sign-in with the session's cookie, and ends the session that it replaces. */
async function enterSession(asked: ConsoleAsked<unknown>, opened: OpenedSession): Promise<Response> {
  const { parts, signedIn } = asked
  const { account, session, text } = opened
  const before = signedIn && (await parts.accounts.findSession(signedIn.session.id))
  if (signedIn && before?.revokedAt === null) await parts.identities.endSession(signedIn.account, before.id)
  const view = await sessionView(parts, { account, session })
  return withCookie(parts, view, text, session.expiresAt - parts.now())
}

async function leaveSession(parts: HttpParts): Promise<Response> {
  return withCookie(parts, await sessionView(parts, undefined), '', 0)
}

function withCookie({ site }: HttpParts, view: object, text: string, maxAgeMs: number): Response {
  return Response.json(view, { headers: { 'set-cookie': setSessionCookie(site, text, maxAgeMs) } })
}

/** The session after a change. */
async function current({ accounts }: HttpParts, id: string): Promise<SignedInAccount | undefined> {
  const session = await accounts.findSession(id)
  const account = session && (await accounts.findAccount(session.account))
  return session && account ? { account, session } : undefined
}

async function sessionView(
  { identities, identityStore, passkeys: webauthn, oidc, groups, brand, now }: HttpParts,
  signedIn: SignedInAccount | undefined,
): Promise<SessionView> {
  const ways = {
    methods: [
      ...(identities.ways.passwords ? ['password'] : []),
      ...(webauthn.available ? ['passkey'] : []),
      ...(oidc ? [`oidc:${oidc.label}`] : []),
    ],
    sign_up: identities.ways.passwords ? identities.signUpPolicy : 'closed',
    mail: identities.mails,
    brand: {
      name: brand.name,
      logo: brand.logo,
      accent: brand.accent,
      accent_dark: brand.accentDark,
      terms_url: brand.termsUrl,
      privacy_url: brand.privacyUrl,
      support: brand.support,
    },
  }
  if (!signedIn) return { account: null, role: null, elevated_until: null, ...ways }
  const { account, session } = signedIn
  const passkeys = await identityStore.listPasskeys(account.id)
  return {
    account: {
      id: account.id,
      email: account.email,
      created_at: iso(account.createdAt),
      email_verified: account.verifiedAt !== null,
      has_password: (await identityStore.passwordOf(account.id)) !== null,
      passkeys: passkeys.length,
      groups: (await groups.membershipsOf(account.id)).length,
      access: await identityStore.accessOf(account.id, now()),
    },
    role: account.role,
    elevated_until: isoOrNull(session.elevatedUntil),
    ...ways,
  }
}

async function listSessions({
  parts,
  account,
  session,
}: SignedInAsked<undefined>): Promise<{ readonly data: readonly OpenSessionView[] }> {
  const open = await parts.identityStore.openSessions(account.id, parts.now())
  return {
    data: open.map((each) => ({
      id: each.id,
      current: each.id === session.id,
      created_at: iso(each.createdAt),
      seen_at: isoOrNull(each.seenAt),
      expires_at: iso(each.expiresAt),
      user_agent: each.userAgent,
    })),
  }
}

// Passkeys in the console: registering, using, naming and removing them.

export const passkeyRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'POST passkeys/options',
    { summary: 'What a browser needs to make a passkey', elevated: true, body: emptyBody },
    ({ parts, account }) => parts.passkeys.creationOptions(account),
  ),
  ownRoute(
    'POST passkeys',
    { summary: 'Register the passkey that a browser made', status: 201, elevated: true, body: passkeyBody },
    async ({ parts, account, body }) =>
      passkeyView(await parts.passkeys.register(account, body.response, body.name ?? 'passkey')),
  ),
  publicRoute(
    'POST passkeys/challenge',
    { summary: 'What a browser needs to find a passkey', body: emptyBody },
    async ({ parts, visitor }) => {
      await parts.identities.allowChallenge(visitor)
      return parts.passkeys.requestOptions()
    },
  ),
  publicRoute(
    'POST passkeys/sign-in',
    {
      summary: 'Sign in by passkey',
      errors: ['wrong_credentials', 'account_suspended'],
      body: provePasskeyBody,
    },
    async (asked) => {
      const { parts, body, visitor } = asked
      const account = await parts.passkeys.prove(body.response)
      return enterSession(asked, await parts.identities.open(account, visitor))
    },
  ),
  ownRoute('GET passkeys', { summary: 'The passkeys of the account' }, async ({ parts, account }) => ({
    data: (await parts.identityStore.listPasskeys(account.id)).map(passkeyView),
  })),
  ownRoute(
    'PATCH passkeys/:id',
    { summary: 'Name a passkey', body: renamePasskeyBody },
    async ({ parts: { identityStore }, account, body, params }) => {
      const id = params['id']!
      if (!(await identityStore.renamePasskey(account.id, id, body.name))) throw new GatewayError('not_found')
      return passkeyView((await identityStore.findPasskey(id))!)
    },
  ),
  ownRoute(
    'DELETE passkeys/:id',
    { summary: 'Remove a passkey, unless it is the only way to sign in', elevated: true },
    async ({ parts, account, params }) => {
      const id = params['id']!
      if (!(await parts.identityStore.deletePasskey(account.id, id, usableWays(parts))))
        throw new GatewayError('not_found')
      return { id, deleted: true }
    },
  ),
]

function passkeyView({ id, name, createdAt, lastUsedAt, backedUp }: Passkey): PasskeyView {
  return {
    id,
    name,
    created_at: iso(createdAt),
    last_used_at: isoOrNull(lastUsedAt),
    backed_up: backedUp,
  }
}

// Single sign-on in the console: redirects to the issuer, and handles the return. Both are browser pages: errors are
// shown on the sign-in page, or in the settings to whoever is signed in. And the identities of an account.

export const oidcRoutes: readonly ConsoleRoute[] = [
  publicRoute('GET oidc/start', { summary: 'Go to the single sign-on', status: 302 }, (asked) =>
    onPage(asked, () => start(asked)),
  ),
  publicRoute(
    'GET oidc/callback',
    { summary: 'Come back from the single sign-on', status: 302, errors: ['identity_not_linked'] },
    (asked) => onPage(asked, () => callback(asked)),
  ),
  ownRoute(
    'GET identities',
    { summary: 'The single sign-on identities of the account' },
    async ({ parts, account }) => ({
      data: (await parts.identityStore.listIdentities(account.id)).map((each) => identityView(parts, each)),
    }),
  ),
  ownRoute(
    // Never GET: a page of others must not begin it, because at the issuer the browser may be signed in as somebody
    // else, whose identity would become a way into the account.
    'POST identities/link',
    {
      summary: 'Begin to link an identity: where the browser goes to sign in to the single sign-on',
      elevated: true,
      errors: ['not_found'],
      body: emptyBody,
    },
    async ({ parts, account, visitor }) => {
      const { url, cookie } = await beginSignIn(parts, visitor, account.id)
      return Response.json({ url }, { headers: { 'set-cookie': cookie } })
    },
  ),
  ownRoute(
    'DELETE identities',
    {
      summary: 'Unlink an identity, unless it is the only way to sign in',
      elevated: true,
      errors: ['not_found'],
      body: unlinkBody,
    },
    async ({ parts, account, body }) => {
      if (!(await parts.identityStore.unlinkIdentity(body, account.id, usableWays(parts))))
        throw new GatewayError('not_found')
      return { ...body, unlinked: true }
    },
  ),
]

function identityView({ oidc }: HttpParts, { issuer, subject, linkedAt }: LinkedIdentity): IdentityView {
  const label = oidc?.isIssuer(issuer) ? oidc.label : null
  return { issuer, subject, label, linked_at: iso(linkedAt) }
}

/** The browser must return its state, so that a code obtained by somebody else is useless in it. */
function stateCookie(site: CookieSite): string {
  return cookieName(site, { secure: '__Host-weir-oidc', plain: 'weir_oidc' })
}

async function start({ parts, signedIn, visitor }: ConsoleAsked<undefined>): Promise<Response> {
  if (signedIn) return redirect(parts.site, '/console/settings', [])
  const { url, cookie } = await beginSignIn(parts, visitor, null)
  return redirectTo(url, [cookie])
}

/** Where to send the browser, and the cookie with its state. Throws `not_found` without single sign-on. */
async function beginSignIn(
  { identities, oidc, site }: HttpParts,
  visitor: Visitor,
  linkTo: string | null,
): Promise<{ readonly url: string; readonly cookie: string }> {
  if (!oidc) throw new GatewayError('not_found')
  await identities.allowChallenge(visitor)
  const { url, state } = await oidc.begin(linkTo)
  return { url, cookie: setCookie(site, stateCookie(site), state, ticketLife.oidc) }
}

async function callback(asked: ConsoleAsked<undefined>): Promise<Response> {
  const { parts, request, signedIn, visitor } = asked
  const { identities, oidc, site } = parts
  if (!oidc) throw new GatewayError('not_found')
  const state = cookieOf(request.headers, stateCookie(site))
  const back = new URL(request.url).searchParams
  const { account, linked } = await oidc.finish(back, state, signedIn?.account)
  const answer = await enterSession(asked, await identities.open(account, visitor))
  await parts.freeCredit.ensure(account)
  const page = linked ? '/console/settings' : '/console'
  return redirect(site, page, [answer.headers.get('set-cookie')!, setCookie(site, stateCookie(site), '', 0)])
}

/** Redirects to a page that shows the error, and logs why; internal errors are passed on to be logged. */
async function onPage(
  { parts: { site, log }, requestId, signedIn }: ConsoleAsked<undefined>,
  work: () => Promise<Response>,
): Promise<Response> {
  try {
    return await work()
  } catch (thrown) {
    const { code, details } = asGatewayError(thrown)
    if (code === 'internal_error' || code === 'not_found') throw thrown
    const failed = { request_id: requestId, code }
    const { cause } = details
    if (cause === undefined) log.info('a single sign-on was refused', failed)
    else if (cause instanceof SignOnRefusal)
      log.info('a single sign-on was refused', { ...failed, reason: cause.message })
    else log.warn('a single sign-on failed', { ...failed, error: thrown })
    const page = signedIn ? 'settings' : 'sign-in'
    return redirect(site, `/console/${page}#error=${code}`, [setCookie(site, stateCookie(site), '', 0)])
  }
}

/** To a page of this gateway. */
function redirect(site: CookieSite, page: string, cookies: readonly string[]): Response {
  return redirectTo(`${sitePath(site.url())}${page}`, cookies)
}

function redirectTo(location: string, cookies: readonly string[]): Response {
  const response = new Response(null, { status: 302, headers: { location } })
  for (const cookie of cookies) response.headers.append('set-cookie', cookie)
  return response
}

/** What accounts of this gateway can be signed in to with. */
function usableWays({ identities, passkeys, oidc }: HttpParts): UsableWays {
  return { passwords: identities.ways.passwords, passkeys: passkeys.available, issuer: oidc?.issuer }
}
