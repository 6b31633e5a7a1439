// The prompt library: texts that an account keeps to ask with again.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import type { SavedPrompt } from '../../responses/conversation-store.ts'
import type { SavedPromptView } from './answers.ts'
import { type ConsoleRoute, iso, ownRoute } from './route.ts'

/** Kept for an account. */
const mostPrompts = 200

const name = z.string().trim().min(1).max(100)
const text = z.string().min(1).max(20_000)
const prompt = z.strictObject({ name, text })

export const promptRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'prompts', summary: 'The saved prompts, by name' },
    async ({ parts, account }) => ({ data: (await parts.prompts.list(account.id)).map(promptView) }),
  ),
  ownRoute(
    { method: 'POST', path: 'prompts', summary: 'Save a prompt', status: 201, body: prompt },
    async ({ parts, account, body }) => {
      const id = `prompt_${Bun.randomUUIDv7().replaceAll('-', '')}`
      const saved = { ...body, id, account: account.id, changedAt: parts.now() }
      if (!(await parts.prompts.add(saved, mostPrompts))) {
        const message = `An account has at most ${mostPrompts} saved prompts: delete one.`
        throw new GatewayError('invalid_request', { message })
      }
      return promptView(saved)
    },
  ),
  ownRoute(
    {
      method: 'PATCH',
      path: 'prompts/:id',
      summary: 'Change a saved prompt',
      errors: ['not_found'],
      body: prompt,
    },
    async ({ parts, account, params, body }) => {
      const changed = { ...body, id: params['id']!, account: account.id, changedAt: parts.now() }
      if (!(await parts.prompts.change(changed))) throw noSuchPrompt()
      return promptView(changed)
    },
  ),
  ownRoute(
    { method: 'DELETE', path: 'prompts/:id', summary: 'Delete a saved prompt', errors: ['not_found'] },
    async ({ parts, account, params }) => {
      if (!(await parts.prompts.remove(account.id, params['id']!))) throw noSuchPrompt()
      return { id: params['id']!, deleted: true }
    },
  ),
]

function promptView({ id, name: title, text: words, changedAt }: SavedPrompt): SavedPromptView {
  return { id, name: title, text: words, changed_at: iso(changedAt) }
}

function noSuchPrompt(): GatewayError {
  return new GatewayError('not_found', { message: 'This account has no saved prompt with that id.' })
}
