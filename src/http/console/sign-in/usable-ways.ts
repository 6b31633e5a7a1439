import type { UsableWays } from '../../../accounts/identity/identity-store.ts'
import type { HttpParts } from '../../parts.ts'

/** What accounts of this gateway can be signed in to with, besides passwords. */
export function usableWays({ passkeys, oidc }: HttpParts): UsableWays {
  return { passkeys: passkeys.available, issuer: oidc?.issuer }
}
