// Ollama's own chat protocol. Its chat-completions endpoint has no context size parameter and silently truncates long
// conversations; this one takes the context size.

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
  // Ollama servers also serve OpenAI's embeddings, at that path.
  embeddings,
}
