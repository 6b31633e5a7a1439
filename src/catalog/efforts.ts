// The reasoning efforts of models, by the names that clients use. efforts.json is made by generate.ts from a source,
// efforts-decided.json holds what no source states.

import effortsText from './efforts.json' with { type: 'text' }

export const effortWords = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type EffortWord = (typeof effortWords)[number]

/** Maps the client's effort to the provider's. Empty if the model's effort cannot be set, or it does not reason. */
export type Efforts = Readonly<Partial<Record<EffortWord, string>>>

/** As written in the files: separated by spaces, weakest first; `high=default` if the provider's name differs. */
export function parseEfforts(written: string): Efforts {
  const pairs = written.split(' ').filter((word) => word !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const [word, wire = word] = pair.split('=')
      return [word, wire]
    }),
  )
}

let bundled: Readonly<Record<string, string>> | undefined

/** The efforts of a provider's model, by its name there; undefined if no source states them. */
export function effortsOf(provider: string, upstream: string): Efforts | undefined {
  bundled ??= (JSON.parse(String(effortsText)) as { models: Record<string, string> }).models
  const id = `${provider}/${upstream}`
  return Object.hasOwn(bundled, id) ? parseEfforts(bundled[id]!) : undefined
}
