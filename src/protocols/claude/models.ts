// What each generation of Claude accepts, as a table.

export type Effort = 'low' | 'medium' | 'high' | 'xhigh' | 'max'

export interface ModelTraits {
  /** `budget`: `thinking.budget_tokens`. `adaptive`: the model decides, guided by an effort. */
  readonly thinking: 'none' | 'budget' | 'adaptive'
  /** Whether a model with adaptive thinking still accepts a budget. */
  readonly takesBudget: boolean
  /** How thinking is turned off: by omitting the field, by a value, or not at all. */
  readonly thinkingOff: 'omit' | 'disabled' | 'never'
  /** Whether `thinking.display` is supported; newer models show no reasoning unless it is `summarized`. */
  readonly display: boolean
  /** The supported effort levels, weakest first; empty without any. */
  readonly efforts: readonly Effort[]
  /** Temperature and top_p together, one of them, or neither. */
  readonly sampling: 'both' | 'one' | 'neither'
  /** Whether the model continues a final assistant message; refused from 4.6 on. */
  readonly prefill: boolean
  /** How answer schemas are sent: in `output_config.format`, or as a tool that the model must call. */
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
  // From Claude 5 on thinking is the default, so off must be explicit.
  [/claude/, { ...adaptive, thinkingOff: 'disabled' }],
]

/**
 * What a model accepts. A model of another vendor gets the oldest, most widely supported forms, and thinks if the
 * catalog says that it reasons.
 */
export function traitsOf(model: string, reasons: boolean, overrides: Partial<ModelTraits>): ModelTraits {
  const name = model.toLowerCase()
  const known = rows.find(([pattern]) => pattern.test(name))?.[1]
  return { ...(known ?? (reasons ? budgeted : early)), ...overrides }
}

/** Parameters that a model refuses in any case. Models of other vendors refuse none. */
export function ignoredByClaude(model: string, reasons: boolean): readonly string[] {
  return traitsOf(model, reasons, {}).sampling === 'neither' ? ['temperature', 'top_p', 'top_k'] : []
}
