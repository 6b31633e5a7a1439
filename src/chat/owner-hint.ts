// For the owner of a fresh installation who has no credit: the error names the command that grants some.

import { type Account, ownerEmail } from '../accounts/account.ts'
import { errorTable } from '../errors.ts'

/**
 * The operator of a gateway of their own can add credit without paying anybody: with the owner's key the message names
 * the command. Nothing for other accounts.
 */
export function ownerHint(
  code: 'purchased_credits_required' | 'insufficient_credits',
  { email }: Account,
): { readonly message?: string } {
  if (email !== ownerEmail) return {}
  const command = `weir credits grant --account ${ownerEmail} --pool purchased --usd 100`
  return { message: `${errorTable[code].means} To add credit: ${command}` }
}
