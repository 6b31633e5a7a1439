// Single sign-on in the console: redirects to the issuer, and handles the return. Both are browser pages: errors are
// shown on the sign-in page.

import { asGatewayError, GatewayError } from '../../../errors.ts'
import { isElevated } from '../../../accounts/identity/identities.ts'
import { ticketLife } from '../../../accounts/identity/ticket.ts'
import { cookieName, cookieOf, type CookieSite, setCookie } from '../../intake/site.ts'
import { type Asked, type ConsoleRoute, publicRoute } from '../route.ts'
import { entered } from './session.ts'

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
]

/** The browser must return its state, so that a code obtained by somebody else is useless in it. */
function stateCookie(site: CookieSite): string {
  return cookieName(site, { secure: '__Host-weir-oidc', plain: 'weir_oidc' })
}

async function start({ parts, request, signedIn, visitor }: Asked<undefined>): Promise<Response> {
  const { identities, oidc, site, now } = parts
  if (!oidc) throw new GatewayError('not_found')
  identities.allowChallenge(visitor)
  // Another way into an account needs the same protection as its password, and a page of others must not add one: at
  // the issuer the browser may be signed in as somebody else.
  if (signedIn && isFromOtherPage(request)) throw new GatewayError('origin_not_allowed')
  if (signedIn && !isElevated(signedIn.session, now())) throw new GatewayError('elevation_required')
  const { url, state } = await oidc.begin(signedIn?.account.id ?? null)
  return redirect(url, [setCookie(site, stateCookie(site), state, ticketLife.oidc)])
}

/** Whether a browser says that a page of another site or origin led here. */
function isFromOtherPage({ headers }: Request): boolean {
  const from = headers.get('sec-fetch-site')
  return from !== null && from !== 'same-origin' && from !== 'none'
}

async function callback(asked: Asked<undefined>): Promise<Response> {
  const { parts, request, signedIn, visitor } = asked
  const { identities, oidc, site } = parts
  if (!oidc) throw new GatewayError('not_found')
  const state = cookieOf(request.headers, stateCookie(site))
  const account = await oidc.finish(new URL(request.url).searchParams, state, signedIn?.account)
  const answer = await entered(asked, await identities.open(account, visitor))
  await parts.freeCredit.ensure(account)
  return redirect('/console', [answer.headers.get('set-cookie')!, setCookie(site, stateCookie(site), '', 0)])
}

/** Redirects to the sign-in page with the error, and logs why; internal errors are passed on to be logged. */
async function onPage(
  { parts: { site, log }, requestId }: Asked<undefined>,
  work: () => Promise<Response>,
): Promise<Response> {
  try {
    return await work()
  } catch (thrown) {
    const { code, details } = asGatewayError(thrown)
    if (code === 'internal_error' || code === 'not_found') throw thrown
    const failed = { request_id: requestId, code }
    if (details.cause === undefined) log.info('a single sign-on was refused', failed)
    else log.warn('a single sign-on failed', { ...failed, error: thrown })
    return redirect(`/console/sign-in#error=${code}`, [setCookie(site, stateCookie(site), '', 0)])
  }
}

function redirect(location: string, cookies: readonly string[]): Response {
  const response = new Response(null, { status: 302, headers: { location } })
  for (const cookie of cookies) response.headers.append('set-cookie', cookie)
  return response
}
