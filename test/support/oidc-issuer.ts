// A real OpenID Connect issuer on loopback: oidc-provider, with its own login and consent pages. Any login is let in;
// `boss…` is of the operators, the address of `unproven…` is not verified, `guest…` is of another domain.

import { Provider } from 'oidc-provider'

/** Starts an issuer at an address of this machine, with the client `weir` (secret `secret`). */
export function startIssuer(issuer: string, redirectUri: string): { close(): void } {
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'weir', client_secret: 'secret', redirect_uris: [redirectUri] }],
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id}@${id.startsWith('guest') ? 'elsewhere.example' : 'example.org'}`,
        email_verified: !id.startsWith('unproven'),
        groups: id.startsWith('boss') ? ['weir-operators'] : ['staff'],
      }),
    }),
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['only a test'] },
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
