// The chat's conversations: a list, and the turns of each, which are its stored responses.

import { z } from 'zod'
import { wholeAccount } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { withoutEncrypted } from '../../protocols/openai-responses/inbound/inbound.ts'
import type {
  ConversationChanges,
  ConversationRecord,
  OpenConversation,
} from '../../responses/conversation-store.ts'
import type { StoredResponse } from '../../responses/response-store.ts'
import { readPermit } from '../intake/read-body.ts'
import { mostRead, outputOf } from '../../responses/keep.ts'
import type { HttpParts } from '../parts.ts'
import { chatSettings, importedTurn, type ConversationView, type SettledConversationView } from './answers.ts'
import { type SignedInAsked, type ConsoleRoute, iso, ownRoute } from './route.ts'

/** Kept per account; older ones are deleted. */
export const mostConversations = 2_000

const title = z.string().trim().min(1).max(200)
const model = z.string().min(1).max(200)
const responseId = z.string().min(1).max(200)

const folder = z.string().trim().min(1).max(60).nullable()

const placed = {
  folder: folder.optional(),
  pinned: z.boolean().optional(),
  settings: chatSettings.nullable().optional(),
}
const newConversation = z.strictObject({ title, model: model.optional(), ...placed })
/** Of one imported conversation: it is read whole, and goes along with the first question that continues it. */
const mostImportedBytes = 1024 ** 2
const importedConversation = z.strictObject({
  title,
  folder: folder.optional(),
  turns: z.array(importedTurn).min(1).max(2_000),
})
const changes = z.strictObject({
  ...placed,
  title: title.optional(),
  model: model.optional(),
  last_response: responseId.optional(),
})

export const conversationRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'conversations', summary: 'The conversations of the chat, the latest first' },
    async ({ parts, account }) => {
      const all = await parts.conversations.list(account.id, mostConversations)
      const answered = await answeredNow(parts, account.id)
      return { data: all.map((each) => ({ ...conversationObject(each), answering: answered.has(each.id) })) }
    },
  ),
  ownRoute(
    {
      method: 'POST',
      path: 'conversations',
      summary: 'Begin a conversation',
      status: 201,
      body: newConversation,
    },
    async ({ parts, account, body }) => {
      const conversation: OpenConversation = {
        ...newRecord(account.id, body.title, parts.now()),
        model: body.model ?? null,
        folder: body.folder ?? null,
        pinned: body.pinned ?? false,
        settings: body.settings ?? null,
      }
      await parts.conversations.add(conversation, mostConversations)
      return settledObject(parts, conversation)
    },
  ),
  ownRoute(
    {
      method: 'POST',
      path: 'imported-conversations',
      summary: 'Add a conversation from the export of another program',
      status: 201,
      body: importedConversation,
      maxBodyBytes: mostImportedBytes,
    },
    async ({ parts, account, body }) => {
      const conversation = { ...newRecord(account.id, body.title, parts.now()), folder: body.folder ?? null }
      await parts.conversations.addImported(conversation, body.turns, mostConversations)
      return settledObject(parts, conversation)
    },
  ),
  ownRoute(
    {
      method: 'GET',
      path: 'conversations/:id',
      summary: 'One conversation with its turns',
      errors: ['not_found'],
    },
    async (asked) => {
      // Asked first: an answer that ends meanwhile is then among the turns.
      const answered = await answeredNow(asked.parts, asked.account.id)
      const conversation = await asked.parts.conversations.find(asked.account.id, asked.params['id']!)
      if (!conversation) throw noSuchConversation()
      const responses = await chainOf(asked, conversation.lastResponse)
      const answering = answered.has(conversation.id)
      const imported = await asked.parts.conversations.importedTurns(asked.account.id, conversation.id)
      return {
        ...settledObject(asked.parts, conversation),
        answering,
        imported,
        turns: responses.map(turnObject),
      }
    },
  ),
  ownRoute(
    {
      method: 'PATCH',
      path: 'conversations/:id',
      summary: 'Change its title, its place or how it asks, or note where it stands',
      errors: ['not_found'],
      body: changes,
    },
    async ({ parts, account, params, body }) => {
      const { last_response: lastResponse, ...rest } = body
      if (
        lastResponse !== undefined &&
        (await parts.responses.sizeOf(wholeAccount(account.id), lastResponse)) === undefined
      ) {
        const message = 'This account has no stored response with that id.'
        throw new GatewayError('invalid_request', { message, param: 'last_response' })
      }
      const change: ConversationChanges = { ...rest, ...(lastResponse === undefined ? {} : { lastResponse }) }
      const changed = await parts.conversations.change(account.id, params['id']!, change, parts.now())
      if (!changed) throw noSuchConversation()
      return settledObject(parts, changed)
    },
  ),
  ownRoute(
    {
      method: 'DELETE',
      path: 'conversations/:id',
      summary: 'Delete a conversation with its stored responses',
      errors: ['not_found'],
    },
    async ({ parts, account, params }) => {
      const conversation = await parts.conversations.remove(account.id, params['id']!)
      if (!conversation) throw noSuchConversation()
      if (conversation.lastResponse !== null)
        await parts.responses.deleteConversation(account.id, conversation.lastResponse)
      return { id: conversation.id, deleted: true }
    },
  ),
]

function newRecord(account: string, name: string, at: number): OpenConversation {
  return {
    id: `conv_${Bun.randomUUIDv7().replaceAll('-', '')}`,
    account,
    title: name,
    model: null,
    lastResponse: null,
    folder: null,
    pinned: false,
    settings: null,
    share: null,
    createdAt: at,
    updatedAt: at,
  }
}

/** The conversations in which an answer is being written. */
async function answeredNow({ callsOf }: HttpParts, account: string): Promise<ReadonlySet<string | null>> {
  return new Set((await callsOf(account)).map(({ conversation }) => conversation))
}

/** The responses of a conversation, oldest first; empty if they have expired. */
async function chainOf(
  { parts, request, requestId, account }: SignedInAsked<unknown>,
  last: string | null,
): Promise<readonly StoredResponse[]> {
  if (last === null) return []
  const permit = readPermit(parts, request, requestId, account.id)
  // As much as can be continued, and the last answer to that.
  const most = mostRead(parts.body.maxBodyBytes) + parts.responseLimits.storedBytes
  const chain = await parts.parsedResponses.conversation(wholeAccount(account.id), last, most, permit)
  return chain.kind === 'whole' ? chain.responses : []
}

function conversationObject(conversation: ConversationRecord): ConversationView {
  const { id, title, model, lastResponse, folder: place, pinned, createdAt, updatedAt } = conversation
  return {
    id,
    title,
    model,
    last_response: lastResponse,
    folder: place,
    pinned,
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
  }
}

/** With what it is asked with, and its link. */
export function settledObject(
  { shareLinks, site }: Pick<HttpParts, 'shareLinks' | 'site'>,
  conversation: OpenConversation,
): SettledConversationView {
  const { share } = conversation
  const url = share && `${site.url()}/console/shared/${share.token}`
  return {
    ...conversationObject(conversation),
    settings: conversation.settings as SettledConversationView['settings'],
    share: share && url ? { url, created_at: iso(share.at) } : null,
    may_share: shareLinks(),
  }
}

function turnObject(stored: StoredResponse): { response: JsonObject; input: readonly JsonObject[] } {
  return {
    response: { ...stored.answer, output: outputOf(stored).map(withoutEncrypted) },
    input: stored.input.map(withoutEncrypted),
  }
}

export function noSuchConversation(): GatewayError {
  return new GatewayError('not_found', { message: 'This account has no conversation with that id.' })
}
