// Single sign-on in the console: redirects to the issuer, and handles the return. Both are browser pages: errors are
// shown on the sign-in page, or in the settings to whoever is signed in. And the identities of an account.

import { asGatewayError, GatewayError } from '../../../errors.ts'
import type { Visitor } from '../../../accounts/identity/identities.ts'
import { SignOnRefusal } from '../../../accounts/identity/oidc.ts'
import type { LinkedIdentity } from '../../../accounts/identity/identity-store.ts'
import { ticketLife } from '../../../accounts/identity/ticket.ts'
import { cookieName, cookieOf, type CookieSite, setCookie } from '../../intake/site.ts'
import type { HttpParts } from '../../parts.ts'
import { type Asked, type ConsoleRoute, iso, ownRoute, publicRoute } from '../route.ts'
import type { IdentityView } from '../views.ts'
import { emptyBody, unlinkBody } from '../wire.ts'
import { enterSession } from './session.ts'
import { usableWays } from './usable-ways.ts'

export const oidcRoutes: readonly ConsoleRoute[] = [
  publicRoute(
    { method: 'GET', path: 'oidc/start', summary: 'Go to the single sign-on', status: 302 },
    (asked) => onPage(asked, () => start(asked)),
  ),
  publicRoute(
    {
      method: 'GET',
      path: 'oidc/callback',
      summary: 'Come back from the single sign-on',
      status: 302,
      errors: ['identity_not_linked'],
    },
    (asked) => onPage(asked, () => callback(asked)),
  ),
  ownRoute(
    { method: 'GET', path: 'identities', summary: 'The single sign-on identities of the account' },
    async ({ parts, account }) => ({
      data: (await parts.identityStore.listIdentities(account.id)).map((each) => identityView(parts, each)),
    }),
  ),
  ownRoute(
    {
      // Never GET: a page of others must not begin it, because at the issuer the browser may be signed in as somebody
      // else, whose identity would become a way into the account.
      method: 'POST',
      path: 'identities/link',
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
    {
      method: 'DELETE',
      path: 'identities',
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

async function start({ parts, signedIn, visitor }: Asked<undefined>): Promise<Response> {
  if (signedIn) return redirect('/console/settings', [])
  const { url, cookie } = await beginSignIn(parts, visitor, null)
  return redirect(url, [cookie])
}

/** Where to send the browser, and the cookie with its state. Throws `not_found` without single sign-on. */
async function beginSignIn(
  { identities, oidc, site }: HttpParts,
  visitor: Visitor,
  linkTo: string | null,
): Promise<{ readonly url: string; readonly cookie: string }> {
  if (!oidc) throw new GatewayError('not_found')
  identities.allowChallenge(visitor)
  const { url, state } = await oidc.begin(linkTo)
  return { url, cookie: setCookie(site, stateCookie(site), state, ticketLife.oidc) }
}

async function callback(asked: Asked<undefined>): Promise<Response> {
  const { parts, request, signedIn, visitor } = asked
  const { identities, oidc, site } = parts
  if (!oidc) throw new GatewayError('not_found')
  const state = cookieOf(request.headers, stateCookie(site))
  const back = new URL(request.url).searchParams
  const { account, linked } = await oidc.finish(back, state, signedIn?.account)
  const answer = await enterSession(asked, await identities.open(account, visitor))
  await parts.freeCredit.ensure(account)
  const page = linked ? '/console/settings' : '/console'
  return redirect(page, [answer.headers.get('set-cookie')!, setCookie(site, stateCookie(site), '', 0)])
}

/** Redirects to a page that shows the error, and logs why; internal errors are passed on to be logged. */
async function onPage(
  { parts: { site, log }, requestId, signedIn }: Asked<undefined>,
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
    return redirect(`/console/${page}#error=${code}`, [setCookie(site, stateCookie(site), '', 0)])
  }
}

function redirect(location: string, cookies: readonly string[]): Response {
  const response = new Response(null, { status: 302, headers: { location } })
  for (const cookie of cookies) response.headers.append('set-cookie', cookie)
  return response
}
