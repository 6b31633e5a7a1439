// The capabilities of Gemini models by generation: derived from the model's name, overridden by the provider's row.

import type { Target } from '../../protocol.ts'

/** Settings of a provider row; `by-model` decides by the generation in the model's name. */
export interface GeminiQuirks {
  /** Where models are found under the base URL. */
  readonly modelsPath: string
  /** Whether tools and formats take JSON Schema or only the older OpenAPI subset. */
  readonly schema: 'by-model' | 'json-schema' | 'subset'
  /** How the effort of thinking is sent. */
  readonly thinking: 'by-model' | 'level' | 'budget' | 'none'
  /** Whether a function call in the history without its thought signature is refused. */
  readonly signatures: 'by-model' | 'required' | 'optional'
  /** Whether function calls and their results carry ids. */
  readonly callIds: 'by-model' | 'sent' | 'omitted'
  /** Whether Google's search (grounding) is available, at a fee. */
  readonly webSearch: boolean
  /** Accepted media addresses: `own` (Google's storage and YouTube), or `any` that the provider fetches. */
  readonly readsUrls: 'own' | 'any'
}

export const defaultQuirks: GeminiQuirks = {
  modelsPath: '/models',
  schema: 'by-model',
  thinking: 'by-model',
  signatures: 'by-model',
  callIds: 'by-model',
  webSearch: false,
  readsUrls: 'own',
}

export interface Traits {
  readonly schema: 'json-schema' | 'subset'
  readonly thinking: 'level' | 'budget' | 'none'
  /** The minimum and maximum thinking budget, and whether thinking can be turned off. */
  readonly budget: { readonly least: number; readonly most: number; readonly stops: boolean }
  readonly levels: readonly ThinkingLevel[]
  readonly signaturesRequired: boolean
  readonly sendsCallIds: boolean
  /** Whether a format can be combined with functions; older models refuse that. */
  readonly formatsBesideTools: boolean
  /** Whether a function's result may contain images and files. */
  readonly mediaInResults: boolean
  /** Whether Google bills each search query (3 and later) or each grounded prompt (before). */
  readonly searchBilledPer: 'query' | 'prompt'
}

export type ThinkingLevel = 'minimal' | 'low' | 'medium' | 'high'

/**
 * The traits of a model by its name at the provider. A name without a version (`gemini-flash-latest`) counts as the
 * newest generation, which such names point to.
 */
export function traitsOf(model: string, quirks: GeminiQuirks): Traits {
  const generation = generationOf(model)
  const pro = /\bpro\b/.test(model)
  const byGeneration = generation >= 3 ? 'level' : generation >= 2.5 ? 'budget' : 'none'
  return {
    schema: quirks.schema === 'by-model' ? (generation >= 2.5 ? 'json-schema' : 'subset') : quirks.schema,
    thinking: quirks.thinking === 'by-model' ? byGeneration : quirks.thinking,
    budget: pro
      ? { least: 128, most: 32_768, stops: false }
      : { least: /\blite\b/.test(model) ? 512 : 0, most: 24_576, stops: true },
    levels: levelsOf(generation, model),
    signaturesRequired: quirks.signatures === 'by-model' ? generation >= 3 : quirks.signatures === 'required',
    sendsCallIds: quirks.callIds === 'by-model' ? generation >= 3 : quirks.callIds === 'sent',
    formatsBesideTools: generation >= 3,
    mediaInResults: generation >= 3,
    searchBilledPer: generation >= 3 ? 'query' : 'prompt',
  }
}

function levelsOf(generation: number, model: string): readonly ThinkingLevel[] {
  const pro = /\bpro\b/.test(model)
  // Flash stopped taking the least of them with 3.7; Lite still does.
  if (!pro && (generation < 3.7 || /\blite\b/.test(model))) return ['minimal', 'low', 'medium', 'high']
  // The first Pro of generation 3 has two levels; 3.1 added the middle one.
  return generation > 3 ? ['low', 'medium', 'high'] : ['low', 'high']
}

function generationOf(model: string): number {
  const version = /gemini-(?:[a-z]+-)*(\d+(?:\.\d+)?)/.exec(model)?.[1]
  if (version !== undefined) return Number(version)
  // Gemma shares the protocol but has neither JSON Schema nor a thinking setting.
  return /gemma|learnlm/.test(model) ? 0 : Number.POSITIVE_INFINITY
}

/** What this model of the provider takes. */
export function traitsFor(target: Target<GeminiQuirks>): Traits {
  return traitsOf(target.model, target.quirks)
}
