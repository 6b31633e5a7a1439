// Grounding with Google Search: https://ai.google.dev/gemini-api/docs/google-search

import type { WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type { ChatRequest } from '../../../conversation/request.ts'
import { ableTo, type OwnSearch, unable } from '../../own-search.ts'
import { type GeminiQuirks, traitsOf } from './quirks.ts'

export function ownSearch(
  search: WebSearchDeclaration,
  request: ChatRequest,
  { model, quirks }: { readonly model: string; readonly quirks: GeminiQuirks },
): OwnSearch | undefined {
  if (!quirks.webSearch) return undefined
  const { formatsBesideTools, searchBilledPer } = traitsOf(model, quirks)
  const formatted = request.responseFormat !== undefined && request.responseFormat.kind !== 'text'
  if (formatted && !formatsBesideTools) return unable('cannot stand beside a format of the answer')
  const own = ableTo(search, searchBilledPer === 'prompt' ? 'request' : 'search', [])
  // "Tool use with function calling is unsupported": a 400.
  return own.kind === 'able' ? { ...own, alone: true } : own
}
