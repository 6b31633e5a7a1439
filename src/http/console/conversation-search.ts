// Full-text search over an account's conversations: their stored responses are read, the latest conversation first, for
// a bounded time. No index is kept: it would have to be written with each answer, which is charged and waited for.

import { z } from 'zod'
import { wholeAccount } from '../../accounts/account.ts'
import type { ConversationRecord } from '../../responses/conversation-store.ts'
import type { WrittenResponse } from '../../responses/response-store.ts'
import { queryOf } from '../intake/query.ts'
import type { HttpParts } from '../parts.ts'
import type { ConversationSearchView } from './answers.ts'
import { mostConversations } from './conversations.ts'
import { type ConsoleRoute, iso, ownRoute } from './route.ts'

const query = z.strictObject({ q: z.string().trim().min(2).max(200) })

const mostFound = 30
/** A search ends after this time, and says how far it came. */
const searchedMs = 2_000
/** Of one conversation. Pictures and files are stored as text too; beyond this it is passed over. */
const mostBytes = 4 * 1024 ** 2
/** How long it may hold the event loop at once. */
const turnMs = 5
const snippetCharacters = 120

/** The search that an account waits for: a later one ends those before it. */
const latest = new Map<string, symbol>()

export const conversationSearchRoute: ConsoleRoute = ownRoute(
  {
    method: 'GET',
    path: 'conversation-search',
    summary: 'Conversations with all words of `q` in one question or answer, the latest first',
  },
  async ({ parts, account, request }): Promise<ConversationSearchView> => {
    const { q } = queryOf(query, request)
    const all = await parts.conversations.list(account.id, mostConversations)
    const found: { conversation: ConversationRecord; snippet: string }[] = []
    let searched = 0
    const own = Symbol(account.id)
    latest.set(account.id, own)
    const words = wordsOf(q)
    const until = performance.now() + searchedMs
    let turn = performance.now()
    for (const conversation of all) {
      const now = performance.now()
      if (now > until || found.length === mostFound || request.signal.aborted) break
      if (latest.get(account.id) !== own) break
      if (now - turn > turnMs) {
        await new Promise((resolve) => setImmediate(resolve))
        turn = performance.now()
      }
      const snippet = await snippetOf(parts, conversation, words)
      if (snippet !== undefined) found.push({ conversation, snippet })
      searched++
    }
    if (latest.get(account.id) === own) latest.delete(account.id)
    return {
      data: found.map(({ conversation: { id, title, updatedAt }, snippet }) => ({
        id,
        title,
        updated_at: iso(updatedAt),
        snippet,
      })),
      searched,
      of: all.length,
    }
  },
)

async function snippetOf(
  { responses, conversations }: HttpParts,
  { id, account, lastResponse }: ConversationRecord,
  words: readonly string[],
): Promise<string | undefined> {
  const imported = await conversations.importedTurns(account, id)
  const found = textWith(
    imported.flatMap(({ question, answer }) => [question, answer]),
    words,
  )
  if (found !== undefined) return found
  if (lastResponse === null) return undefined
  const chain = await responses.conversation(wholeAccount(account), lastResponse, mostBytes)
  if (chain.kind !== 'whole') return undefined
  for (const response of chain.responses.toReversed()) {
    const snippet = snippetIn(response, words)
    if (snippet !== undefined) return snippet
  }
  return undefined
}

function wordsOf(q: string): readonly string[] {
  return [...new Set(q.toLowerCase().split(/\s+/))]
}

/** Where all of the words (lower case) stand in a question or in its answer; undefined if they do not. */
export function snippetIn(
  { input, answer }: Pick<WrittenResponse, 'input' | 'answer'>,
  words: readonly string[],
): string | undefined {
  for (const pieces of [answer, input]) {
    const json = pieces.join('')
    const lower = json.toLowerCase()
    // Most texts are no match, and need not be parsed to know that.
    if (!words.every((word) => lower.includes(JSON.stringify(word).slice(1, -1)))) continue
    const found = textWith(textsIn(JSON.parse(json)), words)
    if (found !== undefined) return found
  }
  return undefined
}

/** Where all of the words stand in one of the texts; undefined if they do not. */
function textWith(texts: readonly string[], words: readonly string[]): string | undefined {
  const text = texts.find((each) => {
    const small = each.toLowerCase()
    return words.every((word) => small.includes(word))
  })
  return text === undefined ? undefined : cutAround(text, words[0]!)
}

/** What was said: the texts of messages, and not the ids and names around them. */
function textsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, field]) => {
    if (typeof field === 'string') return name === 'text' || name === 'content' ? [field] : []
    return name === 'output' || name === 'content' || name === 'summary' ? textsIn(field) : []
  })
}

function cutAround(text: string, word: string): string {
  const at = text.toLowerCase().indexOf(word)
  const from = Math.max(0, at - 40)
  const to = from + snippetCharacters
  const cut = text.slice(from, to).replace(/\s+/g, ' ').toWellFormed().trim()
  return `${from > 0 ? '…' : ''}${cut}${to < text.length ? '…' : ''}`
}
