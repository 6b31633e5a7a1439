// Reads the model JSON of @earendil-works/pi-ai (MIT): limits, modalities and prices. Its runtime is never imported.
//
// The package brings an AWS SDK and more, so it is not a dependency. To generate, fetch only its archive:
//   npm pack @earendil-works/pi-ai@1.4.0 && tar -xzf earendil-works-pi-ai-1.4.0.tgz
//   bun run catalog:generate --pi ./package        (then remove both)
// Without --pi the script looks in node_modules/@earendil-works/pi-ai.

import { z } from 'zod'
import { type CatalogRow, decimalOf, effortWords, type PriceSpec, type RateField } from '../../row.ts'
import type { CatalogSource, SourceModel } from './merge.ts'

const costSchema = z.object({
  input: z.number(),
  output: z.number(),
  cacheRead: z.number(),
  cacheWrite: z.number(),
})

const modelSchema = z.object({
  type: z.string(),
  id: z.string(),
  name: z.string(),
  api: z.string(),
  reasoning: z.boolean().optional(),
  input: z.array(z.enum(['text', 'image'])),
  cost: costSchema.extend({ tiers: z.array(costSchema.extend({ inputTokensAbove: z.number() })).optional() }),
  contextWindow: z.number().optional(),
  maxTokens: z.number().optional(),
  /** From a level to the provider's name for it; null if the model does not have the level. */
  thinkingLevelMap: z.record(z.string(), z.string().nullable()).optional(),
  compat: z.object({ supportsTemperature: z.boolean().optional() }).optional(),
})

const fileSchema = z.record(z.string(), z.record(z.string(), modelSchema.or(z.object({ type: z.string() }))))

/** The source in an unpacked package folder. If it is missing, throws with the command to run. */
export async function pi(folder: string): Promise<CatalogSource> {
  const manifest = Bun.file(`${folder}/package.json`)
  if (!(await manifest.exists())) {
    throw new Error(
      `no @earendil-works/pi-ai in ${folder}; ${import.meta.file} says how to fetch its archive`,
    )
  }
  const { version } = z.object({ version: z.string() }).parse(await manifest.json())
  const data = `${folder}/dist/providers/data`
  const { generatedAt } = z
    .object({ generatedAt: z.string() })
    .parse(await Bun.file(`${data}/.manifest.json`).json())
  return {
    name: '@earendil-works/pi-ai',
    version,
    date: generatedAt.slice(0, 10),
    license: 'MIT',
    async models(provider) {
      const file = Bun.file(`${data}/${provider}.json`)
      if (provider === '' || !(await file.exists())) return []
      return Object.values(fileSchema.parse(await file.json()))
        .flatMap((models) => Object.values(models))
        .filter((model) => model.type === 'chat')
        .map((model) => modelFrom(modelSchema.parse(model)))
    },
  }
}

function modelFrom(model: z.infer<typeof modelSchema>): SourceModel {
  const { tiers, ...base } = model.cost
  const rates = specFrom(base)
  return {
    names: [model.id],
    name: model.name,
    contextLength: positive(model.contextWindow),
    maxOutputTokens: positive(model.maxTokens),
    input: model.input,
    output: ['text'],
    reasoning: model.reasoning,
    levels: model.thinkingLevelMap,
    temperature: model.compat?.supportsTemperature,
    price: {
      ...rates,
      ...(tiers === undefined || tiers.length === 0
        ? {}
        : {
            tiers: tiers.map((tier) => ({
              input: '',
              output: '',
              ...specFrom(tier),
              above_prompt_tokens: tier.inputTokensAbove,
            })),
          }),
    },
    withdrawn: false,
    refusal: undefined,
  }
}

/**
 * USD per million tokens. In the source, 0 means unknown, so zeros are left out; so are cache writes that cost less
 * than fresh input, which are a surcharge for storage, not the price of the token.
 */
function specFrom(cost: z.infer<typeof costSchema>): Partial<PriceSpec> {
  const stated: Partial<Record<RateField, string>> = {}
  const state = (field: RateField, value: number) => {
    if (value > 0) stated[field] = decimalOf(value)
  }
  state('input', cost.input)
  state('output', cost.output)
  state('cache_read', cost.cacheRead)
  if (cost.cacheWrite >= cost.input) state('cache_write', cost.cacheWrite)
  return stated
}

function positive(value: number | undefined): number | undefined {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : undefined
}

// Makes the table of efforts: from the source, for other names of the same model, and from decisions.

export const decidedSchema = z.array(
  z.strictObject({
    /** A regular expression over model ids. */
    models: z.string(),
    efforts: z.string(),
    why: z.string().min(10),
    source: z.url(),
  }),
)
type Decided = z.infer<typeof decidedSchema>[number]

/** Routers that choose the nearest effort themselves; of their models it only matters whether they reason. */
const routers: ReadonlySet<string> = new Set(['openrouter', 'vercel'])
/** Their protocols tell models apart by family: see `traitsOf` and `familyOf` there. */
const byFamily: ReadonlySet<string> = new Set(['anthropic', 'gemini', 'vertex', 'bedrock', 'cohere'])
/** They serve another provider's models. */
const sameModels: Readonly<Record<string, string>> = { azure: 'openai' }
/** A name with a date at its end is a version of the model. */
const versionDate = /-\d{4}-\d{2}-\d{2}$/

/** A source's map of levels in the file's notation; undefined if a level would have to be guessed. */
export function effortsIn({ reasoning, levels }: SourceModel): string | undefined {
  if (reasoning === false) return ''
  const complete = (['minimal', 'low', 'medium', 'high'] as const).every(
    (level) => levels?.[level] !== undefined,
  )
  if (!complete) return undefined
  const words = effortWords.flatMap((word): string[] => {
    const wire = levels?.[word === 'none' ? 'off' : word]
    if (wire == null) return []
    return [wire === word ? word : `${word}=${wire}`]
  })
  return words.join(' ')
}

/** The efforts of these rows by id; `stated` by provider and by name there. */
export function effortTable(
  rows: readonly CatalogRow[],
  stated: ReadonlyMap<string, string>,
  decided: readonly Decided[],
): Record<string, string> {
  const table: Record<string, string> = {}
  for (const { id } of rows) {
    const efforts =
      decided.find(({ models }) => new RegExp(models).test(id))?.efforts ?? statedFor(id, stated)
    if (efforts === undefined || byFamily.has(providerOf(id))) continue
    if (routers.has(providerOf(id)) && efforts !== '') continue
    table[id] = efforts
  }
  return table
}

function statedFor(id: string, stated: ReadonlyMap<string, string>): string | undefined {
  const provider = providerOf(id)
  const twin = sameModels[provider]
  const names = [id, ...(twin === undefined ? [] : [id.replace(provider, twin)])]
  for (const name of names) {
    const efforts = stated.get(name) ?? stated.get(name.replace(versionDate, ''))
    if (efforts !== undefined) return efforts
  }
  return undefined
}

function providerOf(id: string): string {
  return id.slice(0, id.indexOf('/'))
}
