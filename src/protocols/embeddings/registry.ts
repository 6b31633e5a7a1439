// Which protocols have embeddings, and how they ask for them.

import { embeddings as cohere } from '../cohere/embeddings.ts'
import type { EmbeddingOutbound } from './embeddings.ts'
import { embeddings as gemini } from '../gemini/outbound/embeddings.ts'
import { embeddings as openai } from './openai-outbound.ts'
import type { ProtocolId } from '../protocol.ts'

/** Servers that chat in Ollama's protocol embed as OpenAI does, under a path of its own. */
export const embedders: Readonly<Partial<Record<ProtocolId, EmbeddingOutbound>>> = {
  'openai-chat': openai,
  'openai-responses': openai,
  ollama: openai,
  gemini,
  cohere,
}
