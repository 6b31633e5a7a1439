import type { NotCallable } from '../api/wire.ts'

/** Why a model cannot be called now, in a sentence. */
export const reasons: Readonly<Record<NotCallable, string>> = {
  no_provider: 'No provider of it is set up on this gateway.',
  plan_required: 'Premium: opens with purchased credit, in the chat also with a subscription.',
  purchased_credits_required: 'Needs purchased credit.',
  not_chat: 'Not a chat model.',
}
