// How many tokens a prompt has, without sending it anywhere.

import { mayUse, type Caller } from '../../accounts/caller.ts'
import { refusalError, wrongEndpoint } from '../admission.ts'
import type { ChatParts } from '../parts.ts'
import type { PromptParts } from '../../protocols/request/prompt-parts.ts'
import { promptCount } from './prompt-size.ts'

/**
 * The tokens of a prompt for a model, as exactly as they can be counted without its provider. Costs nothing, needs no
 * credit. Rejects for a model that is not there, is no chat model, or is not this caller's to use.
 */
export async function countTokens(
  { catalog, counter }: Pick<ChatParts, 'catalog' | 'counter'>,
  caller: Caller,
  model: string,
  prompt: PromptParts,
): Promise<number> {
  const found = catalog.resolve(model)
  if (wrongEndpoint(found, 'chat')) throw refusalError('wrong_endpoint', found, 'chat')
  if (caller.account.suspended) throw refusalError('account_suspended', found, 'chat')
  if (!mayUse(caller, found.id)) throw refusalError('model_not_allowed', found, 'chat')
  return promptCount(counter, prompt)
}
