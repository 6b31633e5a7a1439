// Which recordings speak chat completions, and in whose dialect.

import { defaultQuirks, type OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { providerById } from '../../../src/providers/registry.ts'
import { targetsLike } from '../../support/conversation.ts'

/** How a folder's counters become canonical; written down here again so that the code is not its own witness. */
export type Counting =
  'as-is' | 'reasoning-beside' | 'reasoning-beside-if-larger' | 'prompt-from-total' | 'completion-from-total'

export interface Dialect {
  /** The folder of the recordings. */
  readonly folder: string
  /** The provider's row, where there is one. */
  readonly row: string | undefined
  /** Quirks that an operator would set for a server without a row. */
  readonly quirks?: Partial<OpenAIChatQuirks>
  readonly counting: Counting
}

export const dialects: readonly Dialect[] = [
  { folder: 'openai-chat', row: 'openai', counting: 'as-is' },
  { folder: 'azure-chat', row: 'azure', counting: 'as-is' },
  { folder: 'groq', row: 'groq', counting: 'as-is' },
  { folder: 'deepseek', row: 'deepseek', counting: 'as-is' },
  { folder: 'mistral', row: 'mistral', counting: 'prompt-from-total' },
  { folder: 'xai-chat', row: 'xai', counting: 'reasoning-beside' },
  { folder: 'together', row: 'together', counting: 'as-is' },
  { folder: 'fireworks', row: 'fireworks', counting: 'as-is' },
  { folder: 'cerebras', row: 'cerebras', counting: 'as-is' },
  { folder: 'openrouter', row: 'openrouter', counting: 'as-is' },
  { folder: 'perplexity', row: 'perplexity', counting: 'as-is' },
  {
    // The row of Ollama speaks its own protocol; this is its other endpoint.
    folder: 'ollama-openai',
    row: undefined,
    quirks: { reasoningEcho: 'reasoning', thinkTags: true, fileParts: 'none' },
    counting: 'as-is',
  },
  { folder: 'llamacpp', row: 'llamacpp', counting: 'as-is' },
  { folder: 'vllm', row: 'vllm', counting: 'as-is' },
  { folder: 'zai', row: 'zai', counting: 'as-is' },
  { folder: 'alibaba', row: 'alibaba', counting: 'as-is' },
  { folder: 'huggingface-router', row: 'huggingface', counting: 'as-is' },
  { folder: 'gpustack', row: 'gpustack', counting: 'as-is' },
  { folder: 'cohere-openai-compat', row: undefined, counting: 'as-is' },
  {
    folder: 'gemini-openai-compat',
    row: undefined,
    quirks: { thoughtSignatures: true },
    counting: 'completion-from-total',
  },
  { folder: 'bedrock-mantle-chat', row: undefined, counting: 'as-is' },
  { folder: 'vercel-gateway', row: 'vercel', counting: 'reasoning-beside-if-larger' },
]

export function quirksOf(dialect: Pick<Dialect, 'row' | 'quirks'>): OpenAIChatQuirks {
  const row = dialect.row === undefined ? undefined : providerById(dialect.row)
  if (dialect.row !== undefined && row === undefined) throw new Error(`no row ${dialect.row}`)
  return { ...defaultQuirks, ...(row?.quirks as Partial<OpenAIChatQuirks> | undefined), ...dialect.quirks }
}

/** A target for one model of a provider, with everything at rest. */
export function targetOf(
  quirks: OpenAIChatQuirks,
  fields: Partial<Target<OpenAIChatQuirks>> = {},
): Target<OpenAIChatQuirks> {
  return targetsLike({ model: 'some-model', provider: 'some-provider', quirks })(fields)
}
