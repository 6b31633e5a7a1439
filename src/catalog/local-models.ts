// Models that a server on this machine or in the next rack lists, in the shape of catalog rows.

import { type CatalogRow, freePrice, type PriceSpec } from './row.ts'

export interface ListedModel {
  /** The name that the server knows it by. */
  readonly name: string
  /** Tokens of prompt and output together, where the server says. */
  readonly contextLength?: number | undefined
  /** Whether it turns texts into vectors, and does nothing else. */
  readonly embeds: boolean
}

/** Longer names would make ids that no request may name. */
const longestName = 150

/**
 * Their rows, free unless `price` says otherwise: their tokens are paid for with electricity. A name that is the path of
 * a file becomes an id without it; where two become the same, the second gets a number.
 */
export function localModels(
  provider: string,
  models: readonly ListedModel[],
  today: string,
  price: PriceSpec = freePrice,
): CatalogRow[] {
  const taken = new Set<string>()
  return models.flatMap(({ name, contextLength, embeds }): CatalogRow[] => {
    const clean = freeName(cleanName(name), taken)
    if (clean === '' || clean.length > longestName) return []
    taken.add(clean)
    return [
      {
        id: `${provider}/${clean}`,
        ...(clean === name ? {} : { upstream: name }),
        ...(contextLength === undefined ? {} : { context_length: contextLength }),
        ...(embeds ? { input: ['text'], output: ['embeddings'], parameters: 'embeddings' } : {}),
        price,
        source: 'local server',
        date: today,
      },
    ]
  })
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name
  let number = 2
  while (taken.has(`${name}-${number}`)) number++
  return `${name}-${number}`
}

/** `/models/Qwen3-8B-Q4_K_M.gguf` → `Qwen3-8B-Q4_K_M`; names that are no paths stay as they are. */
export function cleanName(name: string): string {
  const isPath = /^(?:[\\/~]|\.{1,2}[\\/]|[A-Za-z]:[\\/])/.test(name) || /\.gguf$/i.test(name)
  return (isPath ? fileName(name) : name).replace(/[\s\p{C}]+/gu, '-')
}

function fileName(path: string): string {
  // The cache of Hugging Face: models--Qwen--Qwen3-8B/snapshots/<commit>.
  const cached = /models--([^\\/]+?)--([^\\/]+)/.exec(path)
  if (cached && !/\.gguf$/i.test(path)) return `${cached[1]}/${cached[2]}`
  const last = path.split(/[\\/]/).findLast((part) => part !== '') ?? ''
  return last.replace(/\.gguf$/i, '').replace(/-\d{5}-of-\d{5}$/, '')
}
