// Conversations that are shared by a link: what whoever has the link sees of one, and nothing else of its account.

import { wholeAccount } from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { OpenConversation } from '../../responses/conversation-store.ts'
import type { StoredResponse } from '../../responses/response-store.ts'
import { readPermit } from '../intake/read-body.ts'
import type { SharedConversationView } from './answers.ts'
import { noSuchConversation, settledObject } from './conversations.ts'
import { type ConsoleAsked, type ConsoleRoute, iso, ownRoute, publicRoute } from './route.ts'

/** Of a shared conversation with its files, bytes: what somebody unknown may have read. */
const mostBytes = 16 * 1024 ** 2

export const shareRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    {
      method: 'POST',
      path: 'conversations/:id/share',
      summary: 'Share a conversation by a link, as it is now; a link that it has stays the same',
      errors: ['not_found'],
    },
    async ({ parts, account, params, request, requestId }) => {
      if (!parts.shareLinks())
        throw new GatewayError('not_found', {
          message: 'Conversations are not shared here: the operator sets accounts.share_links.',
        })
      const conversation = await parts.conversations.find(account.id, params['id']!)
      if (!conversation) throw noSuchConversation()
      const response = conversation.lastResponse
      const chain =
        response === null ? [] : await chainOf({ parts, request, requestId }, account.id, response)
      if (response === null || chain === undefined || chain.length === 0) {
        const message = 'Nothing of it is stored that could be shared, or it is too large.'
        throw new GatewayError('invalid_request', { message })
      }
      const token = conversation.share?.token ?? newToken()
      const share = { token, response, at: parts.now() }
      const shared = await parts.conversations.change(account.id, conversation.id, { share }, parts.now())
      if (!shared) throw noSuchConversation()
      return settledObject(parts, shared)
    },
  ),
  ownRoute(
    {
      method: 'DELETE',
      path: 'conversations/:id/share',
      summary: 'Revoke the link of a conversation',
      errors: ['not_found'],
    },
    async ({ parts, account, params }) => {
      const changed = await parts.conversations.change(
        account.id,
        params['id']!,
        { share: null },
        parts.now(),
      )
      if (!changed) throw noSuchConversation()
      return settledObject(parts, changed)
    },
  ),
  publicRoute(
    {
      method: 'GET',
      path: 'shared/:token',
      summary: 'A conversation that is shared by a link, up to when it was shared',
      errors: ['not_found'],
    },
    async (asked): Promise<SharedConversationView> => {
      const { parts, params } = asked
      const conversation = parts.shareLinks()
        ? await parts.conversations.findShared(params['token']!)
        : undefined
      const account = conversation && (await parts.accounts.findAccount(conversation.account))
      if (!conversation?.share || !account || account.suspended) throw notShared()
      const { response, at } = conversation.share
      const chain = await chainOf(asked, account.id, response)
      if (!chain) throw notShared()
      const imported = await parts.conversations.importedTurns(account.id, conversation.id)
      const before = imported.map(({ model, ...turn }) => ({
        ...turn,
        model: model ?? '',
        files: [],
        sources: [],
      }))
      return {
        title: conversation.title,
        shared_at: iso(at),
        turns: [...before, ...chain.map(sharedTurn)],
      }
    },
  ),
]

/** 160 bits: nobody finds one by trying. */
function newToken(): string {
  return crypto.getRandomValues(new Uint8Array(20)).toBase64({ alphabet: 'base64url', omitPadding: true })
}

/** undefined where a part of it is not stored any more, or it is too large. */
async function chainOf(
  { parts, request, requestId }: Pick<ConsoleAsked<unknown>, 'parts' | 'request' | 'requestId'>,
  account: OpenConversation['account'],
  response: string,
): Promise<readonly StoredResponse[] | undefined> {
  const permit = readPermit(parts, request, requestId, account)
  const chain = await parts.parsedResponses.conversation(wholeAccount(account), response, mostBytes, permit)
  return chain.kind === 'whole' ? chain.responses : undefined
}

type Item = Readonly<Record<string, unknown>>
type SharedTurn = SharedConversationView['turns'][number]

/** What was asked and answered: no instructions, reasoning, tools, files, costs or ids. Exported for tests. */
export function sharedTurn({
  model,
  input,
  answer,
}: Pick<StoredResponse, 'model' | 'input' | 'answer'>): SharedTurn {
  const asked = input.findLast(({ role }) => role === 'user')
  const parts = asked === undefined ? [] : partsOf(asked)
  // A file in words stands before the question, with its name in front: see the chat's thread.ts.
  const texts = parts.flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  const messages = (Array.isArray(answer['output']) ? (answer['output'] as Item[]) : []).filter(
    ({ type }) => type === 'message',
  )
  const written = messages.flatMap(partsOf)
  return {
    question: texts.at(-1) ?? '',
    files: [
      ...texts.slice(0, -1).flatMap((text) => /^([^\n]{1,200}):\n\n/.exec(text)?.[1] ?? []),
      ...parts.flatMap(({ type, filename }) =>
        type === 'input_image' ? ['image'] : type === 'input_file' ? [textOr(filename, 'file')] : [],
      ),
    ],
    model,
    answer: written
      .map(({ text, refusal }) => textOr(text, textOr(refusal, '')))
      .filter((text) => text !== '')
      .join('\n\n'),
    sources: sourcesIn(written),
  }
}

function partsOf({ content }: Item): readonly Item[] {
  if (typeof content === 'string') return [{ type: 'input_text', text: content }]
  return Array.isArray(content) ? (content as Item[]) : []
}

function sourcesIn(parts: readonly Item[]): SharedTurn['sources'] {
  const found = new Map<string, string>()
  for (const annotation of parts.flatMap(({ annotations }) =>
    Array.isArray(annotations) ? annotations : [],
  )) {
    const { type, url, title } = annotation as Item
    if (type === 'url_citation' && typeof url === 'string' && /^https?:/i.test(url) && URL.canParse(url))
      found.set(url, textOr(title, url))
  }
  return [...found].map(([url, title]) => ({ url, title }))
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' && value !== '' ? value : otherwise
}

function notShared(): GatewayError {
  return new GatewayError('not_found', {
    message: 'There is no such conversation here: its link was revoked, or it was deleted.',
  })
}
