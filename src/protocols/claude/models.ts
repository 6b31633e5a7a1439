// What each generation of Claude accepts, as a table: the protocol is one, its models differ.

export type Effort = 'low' | 'medium' | 'high' | 'xhigh' | 'max'

export interface ModelTraits {
  /** `budget`: `thinking.budget_tokens`. `adaptive`: the model decides, guided by an effort. */
  readonly thinking: 'none' | 'budget' | 'adaptive'
  /** Whether a model that thinks adaptively still takes a budget. */
  readonly takesBudget: boolean
  /** How thinking is turned off: by leaving the field out, by saying so, or not at all. */
  readonly thinkingOff: 'omit' | 'disabled' | 'never'
  /** Whether `thinking.display` is understood; newer models show no reasoning unless it says `summarized`. */
  readonly display: boolean
  /** The effort levels that the model knows, weakest first; empty where it knows none. */
  readonly efforts: readonly Effort[]
  /** Temperature and top_p together, one of them, or neither. */
  readonly sampling: 'both' | 'one' | 'neither'
  /** Whether the model continues a final assistant message; refused from 4.6 on. */
  readonly prefill: boolean
  /** JSON schemas by `output_config.format`, or by a tool that the model is made to call. */
  readonly schema: 'native' | 'tool'
}

const early: ModelTraits = {
  thinking: 'none',
  takesBudget: false,
  thinkingOff: 'omit',
  display: false,
  efforts: [],
  sampling: 'both',
  prefill: true,
  schema: 'tool',
}
const budgeted: ModelTraits = { ...early, thinking: 'budget', takesBudget: true }
const adaptive: ModelTraits = {
  thinking: 'adaptive',
  takesBudget: false,
  thinkingOff: 'omit',
  display: true,
  efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
  sampling: 'neither',
  prefill: false,
  schema: 'native',
}

/**
 * The first row whose pattern the model's name fits. Sources: the vendors' pages on adaptive thinking (4.6 takes
 * both forms, 4.7 and later refuse a budget with 400), and the errors their users report: temperature and top_p
 * exclude each other from Opus 4.1 on and are refused altogether from 4.7 on.
 */
const rows: readonly (readonly [RegExp, ModelTraits])[] = [
  [/claude-(instant|v?[12]\b)/, early],
  [/claude-3[-.]7/, budgeted],
  [/claude-3/, early],
  [/-4[-.]5(?!\d)/, { ...budgeted, sampling: 'one', schema: 'native', display: true }],
  [/-4[-.]1(?!\d)/, { ...budgeted, sampling: 'one' }],
  [
    /-4[-.]6(?!\d)/,
    { ...adaptive, takesBudget: true, efforts: ['low', 'medium', 'high', 'max'], sampling: 'one' },
  ],
  [/-4[-.][7-9](?!\d)/, adaptive],
  [/claude-((opus|sonnet|haiku)-)?4(?![-.][1-9](?!\d))/, budgeted],
  [/claude-(mythos|fable)/, { ...adaptive, thinkingOff: 'never' }],
  // From Claude 5 on a request that says nothing about thinking gets it, so off must be said.
  [/claude/, { ...adaptive, thinkingOff: 'disabled' }],
]

/**
 * What a model accepts. A name that is not Claude's (other vendors serve this protocol too) gets the oldest,
 * most widely understood forms, and thinks where the catalog says that it reasons.
 */
export function traitsOf(model: string, reasons: boolean, overrides: Partial<ModelTraits>): ModelTraits {
  const name = model.toLowerCase()
  const known = rows.find(([pattern]) => pattern.test(name))?.[1]
  return { ...(known ?? (reasons ? budgeted : early)), ...overrides }
}

/** Parameters that a model refuses whatever they say. Models of other vendors have traits that forbid nothing. */
export function ignoredByClaude(model: string, reasons: boolean): readonly string[] {
  return traitsOf(model, reasons, {}).sampling === 'neither' ? ['temperature', 'top_p', 'top_k'] : []
}
