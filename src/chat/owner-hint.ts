import { type Account, ownerEmail } from '../accounts/account.ts'
import { errorTable } from '../errors.ts'

/**
 * The owner of a fresh installation can add credit for free: with the owner's key the error names the command that
 * does. Empty for other accounts.
 */
export function ownerHint(
  code: 'purchased_credits_required' | 'insufficient_credits',
  { email }: Account,
): { readonly message?: string } {
  if (email !== ownerEmail) return {}
  const command = `weir credits grant --account ${ownerEmail} --pool purchased --usd 100`
  return { message: `${errorTable[code].means} To add credit: ${command}` }
}
