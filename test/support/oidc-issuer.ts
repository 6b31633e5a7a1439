// A real OpenID Connect issuer on loopback: oidc-provider, with its own login and consent pages. Any login is let in;
// `boss…` is of the operators, the address of `unproven…` is not verified, that of `textual…` is in words, of `silent…`
// nothing is said of it, `nameless…` has none, `guest…` is of another domain. What UserInfo says of `forged…` is of
// another subject, of `subjectless…` of none, for `failing…` it
// fails, and `swapped…` has another, verified address there.

import { Provider } from 'oidc-provider'

const verified: Readonly<Record<string, unknown>> = {
  unproven: false,
  textual: 'true',
  silent: undefined,
  swapped: undefined,
}

/** What the claim `groups` says of somebody in place of the rest, null for nothing. */
export const saidGroups = new Map<string, readonly string[] | null>()

function claimsOf(id: string, use: string) {
  const kind = /^[a-z]+/.exec(id)![0]
  const domain = kind === 'guest' ? 'elsewhere.example' : 'example.org'
  const atUserInfo = use === 'userinfo'
  const isBoss = kind === 'boss'
  const email = `${kind === 'swapped' && atUserInfo ? 'victim' : id}@${domain}`
  return {
    sub: id,
    ...(kind !== 'nameless' && { email }),
    email_verified: kind in verified && !(kind === 'swapped' && atUserInfo) ? verified[kind] : true,
    groups: saidGroups.has(id) ? (saidGroups.get(id) ?? undefined) : isBoss ? ['weir-operators'] : ['staff'],
    realm_access: { roles: isBoss ? ['weir-operators'] : [] },
    'https://example.org/role.of': isBoss ? 'operator' : undefined,
  }
}

/**
 * Starts an issuer at an address of this machine, with the client `weir` (secret `secret`). `says` is where it puts the
 * claims of a scope: into the ID token as well, or into UserInfo alone, as the specification has it; `address-only` has
 * the addresses in the ID token and the rest in UserInfo.
 */
export function startIssuer(
  issuer: string,
  redirectUri: string,
  says: 'id-token' | 'user-info' | 'address-only' = 'id-token',
): { close(): void } {
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'weir', client_secret: 'secret', redirect_uris: [redirectUri] }],
    findAccount: (_context, id) => ({ accountId: id, claims: (use) => claimsOf(id, use) }),
    claims: {
      openid: says === 'address-only' ? ['sub', 'email'] : ['sub'],
      email: ['email', 'email_verified'],
      profile: ['groups'],
      roles: ['realm_access', 'https://example.org/role.of'],
    },
    conformIdTokenClaims: says !== 'id-token',
    cookies: { keys: ['only a test'] },
  })
  provider.use(async (context, next) => {
    await next()
    if (context.oidc?.route !== 'userinfo') return
    const body = context.body as { sub?: string }
    if (body.sub?.startsWith('failing')) Object.assign(context, { status: 503, body: '' })
    if (body.sub?.startsWith('forged')) body.sub = 'somebody-else'
    if (body.sub?.startsWith('subjectless')) delete body.sub
  })
  const listening = provider.listen(Number(new URL(issuer).port), '127.0.0.1') as {
    close(): void
    closeAllConnections(): void
  }
  return {
    close: () => {
      listening.closeAllConnections()
      listening.close()
    },
  }
}
