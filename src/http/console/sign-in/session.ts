// Sign-up, sign-in, sign-out, passwords, links and sessions of the console.

import type { OpenedSession } from '../../../accounts/identity/identities.ts'
import { GatewayError } from '../../../errors.ts'
import { sessionCookie, setSessionCookie } from '../../intake/site.ts'
import type { HttpParts } from '../../parts.ts'
import {
  type Asked,
  type ConsoleRoute,
  iso,
  isoOrNull,
  ownRoute,
  publicRoute,
  type SignedInAccount,
} from '../route.ts'
import {
  confirmResetBody,
  credentialsBody,
  deleteAccountBody,
  elevateBody,
  emptyBody,
  passwordBody,
  resetBody,
  tokenBody,
} from '../wire.ts'
import type { ListView, OpenSessionView, SessionView } from '../views.ts'

export const sessionRoutes: readonly ConsoleRoute[] = [
  publicRoute(
    { method: 'GET', path: 'session', summary: 'Who is signed in, and how one may sign in' },
    async (asked) => {
      const { parts, request, signedIn } = asked
      const view = await sessionView(parts, signedIn)
      const text = sessionCookie(request, parts.site)
      if (text === undefined) return view
      // The cookie lasts as long as the session, which is extended while it is used.
      const restMs = signedIn ? signedIn.session.expiresAt - parts.now() : 0
      return withCookie(parts, view, signedIn ? text : '', restMs)
    },
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'sign-up',
      summary: 'Open an account',
      status: 202,
      errors: ['sign_up_closed'],
      body: credentialsBody,
    },
    async ({ parts: { identities }, body, visitor }) => {
      await identities.signUp(body.email, body.password, visitor)
      return acceptedAnswer(identities.mails)
    },
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'sign-in',
      summary: 'Sign in by password',
      errors: ['wrong_credentials', 'account_suspended'],
      body: credentialsBody,
    },
    async (asked) => {
      const { parts, body, visitor } = asked
      return enterSession(asked, await parts.identities.signIn(body.email, body.password, visitor))
    },
  ),
  publicRoute(
    { method: 'POST', path: 'sign-out', summary: 'End this session', body: emptyBody },
    async ({ parts, signedIn }) => {
      if (signedIn) await parts.identities.endSession(signedIn.account, signedIn.session.id)
      return leaveSession(parts)
    },
  ),
  ownRoute(
    {
      method: 'POST',
      path: 'password',
      summary: 'Set a password',
      errors: ['wrong_credentials', 'elevation_required'],
      body: passwordBody,
    },
    async (asked) => {
      const { parts, account, session, body, visitor } = asked
      const wanted = { password: body.password, current: body.current }
      return enterSession(asked, await parts.identities.changePassword(account, session, wanted, visitor))
    },
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'reset',
      summary: 'Ask for a link to set a new password',
      status: 202,
      body: resetBody,
    },
    ({ parts: { identities }, body }) => {
      identities.requestReset(body.email)
      return acceptedAnswer(identities.mails)
    },
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'reset/confirm',
      summary: 'Set a new password by a link, also by one that confirms an address',
      errors: ['invalid_ticket'],
      body: confirmResetBody,
    },
    async (asked) => {
      const { parts, body, visitor } = asked
      return enterSession(asked, await parts.identities.confirmReset(body.token, body.password, visitor))
    },
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'verify',
      summary: 'Confirm an address by a link, signed in to its account',
      errors: ['invalid_ticket'],
      body: tokenBody,
    },
    async ({ parts, body, signedIn }) => ({
      email_verified: await parts.identities.verify(body.token, signedIn?.account),
    }),
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'link',
      summary: 'Sign in by a link or an invitation',
      errors: ['invalid_ticket'],
      body: tokenBody,
    },
    async (asked) =>
      enterSession(asked, await asked.parts.identities.follow(asked.body.token, asked.visitor)),
  ),
  ownRoute(
    {
      method: 'POST',
      path: 'elevate',
      summary: 'Prove again who one is',
      errors: ['wrong_credentials'],
      body: elevateBody,
    },
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
  ownRoute({ method: 'GET', path: 'sessions', summary: 'The open sessions' }, listSessions),
  ownRoute(
    { method: 'DELETE', path: 'sessions/:id', summary: 'End a session' },
    async ({ parts, account, session, params }) => {
      const id = params['id']!
      await parts.identities.endSession(account, id)
      const ended = { id, ended: true }
      return id === session.id ? withCookie(parts, ended, '', 0) : ended
    },
  ),
  ownRoute(
    {
      method: 'DELETE',
      path: 'account',
      summary: 'Delete the account',
      elevated: true,
      body: deleteAccountBody,
    },
    async ({ parts, account, body }) => {
      if (body.confirm.trim().toLowerCase() !== account.email)
        throw new GatewayError('invalid_request', {
          message: 'Confirm with the address of the account.',
          param: 'confirm',
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
export async function enterSession(asked: Asked<unknown>, opened: OpenedSession): Promise<Response> {
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

export async function sessionView(
  { identities, identityStore, passkeys: webauthn, oidc, now }: HttpParts,
  signedIn: SignedInAccount | undefined,
): Promise<SessionView> {
  const ways = {
    methods: [
      'password',
      ...(webauthn.available ? ['passkey'] : []),
      ...(oidc ? [`oidc:${oidc.label}`] : []),
    ],
    sign_up: identities.signUpPolicy,
    mail: identities.mails,
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
}: Asked<undefined> & SignedInAccount): Promise<ListView<OpenSessionView>> {
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
