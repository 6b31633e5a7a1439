// Ollama's own chat protocol, spoken to a provider. Its chat-completions endpoint knows no context size and cuts long
// conversations in silence; this one takes the context size as a parameter.

import { embeddings } from '../openai/embeddings.ts'
import type { Outbound } from '../protocol.ts'
import { faultOf } from './fault.ts'
import { lower } from './lower.ts'
import { parseWhole, streamParser } from './stream.ts'
import { defaultQuirks, type OllamaQuirks } from './schema.ts'

export const outbound: Outbound<OllamaQuirks> = {
  id: 'ollama',
  framing: 'ndjson',
  auth: { kind: 'bearer' },
  defaultQuirks,
  inlinesUrls: true,
  textResults: true,
  lower,
  whole: parseWhole,
  parser: streamParser,
  fault: faultOf,
  ignores: () => [],
  // Servers that chat in Ollama's protocol embed as OpenAI does, under a path of its own.
  embeddings,
}
