// Counts the tokens of a prompt without sending it anywhere.

import { mayUse, type Caller } from '../../accounts/caller.ts'
import { refusalError, wrongEndpoint } from '../admission.ts'
import type { ChatParts } from '../parts.ts'
import type { PromptParts } from '../../protocols/request/prompt-parts.ts'
import { countingFor, promptCount } from './prompt-size.ts'

/**
 * The tokens of a prompt for a model, as exactly as possible without its provider. Needs no credit. Rejects if the
 * model is unknown, is not a chat model, or is not allowed for this caller.
 */
export async function countTokens(
  parts: Pick<ChatParts, 'catalog' | 'counter' | 'turns'>,
  caller: Caller,
  model: string,
  prompt: PromptParts,
): Promise<number> {
  const found = parts.catalog.resolve(model)
  if (wrongEndpoint(found, 'chat')) throw refusalError('wrong_endpoint', found, 'chat')
  if (caller.account.suspended) throw refusalError('account_suspended', found, 'chat')
  if (!mayUse(caller, found.id)) throw refusalError('model_not_allowed', found, 'chat')
  return promptCount(countingFor(parts, caller.account.id), prompt)
}
