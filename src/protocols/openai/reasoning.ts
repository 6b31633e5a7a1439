// How hard to think, under every name that providers of OpenAI's protocols read.

import type { ChatRequest, JsonObject, Reasoning } from '../../conversation/request.ts'
import type { Warning } from '../protocol.ts'
import { type LoweredFields, nothingLowered, type ParameterTarget } from './parameter-target.ts'
import type { EffortField } from './quirks.ts'

/** How hard to think, under every name the provider reads. */
export function lowerReasoning(request: ChatRequest, target: ParameterTarget): LoweredFields {
  const { reasoning } = request
  const { effortFields } = target.quirks
  if (reasoning === undefined) return nothingLowered
  if (target.efforts && Object.keys(target.efforts).length === 0) return notReasoning(reasoning, target)
  if (effortFields.length === 0) {
    const message = `'reasoning' was left out: the provider ${target.provider} has no setting for it.`
    return { fields: {}, warnings: [{ param: 'reasoning', message }] }
  }
  const lowered = effortFields.map((field) => effortField(field, reasoning, target))
  return {
    fields: Object.assign({}, ...lowered.map((one) => one.fields)) as JsonObject,
    warnings: [...lowered.flatMap((one) => one.warnings), ...unsupportedReasoning(reasoning, target)],
  }
}

/** For a model that does not reason, or as hard as it likes: providers refuse the parameter with 400. */
function notReasoning(reasoning: Reasoning, { model }: ParameterTarget): LoweredFields {
  if (switchOf(reasoning) === false) return nothingLowered
  const message = `'reasoning' was left out: ${model} cannot be told how hard to reason.`
  return { fields: {}, warnings: [{ param: 'reasoning', message }] }
}

/** What is asked of the reasoning that none of the provider's fields can say. */
function unsupportedReasoning(
  reasoning: Reasoning,
  { provider, quirks }: ParameterTarget,
): readonly Warning[] {
  if (switchOf(reasoning) === false) return []
  const says = (...fields: readonly EffortField[]) =>
    fields.some((field) => quirks.effortFields.includes(field))
  const budgeted = reasoning.maxTokens !== undefined && says('enable_thinking')
  const amount = reasoning.effort !== undefined || reasoning.maxTokens !== undefined
  return [
    ...(amount && !budgeted && !says('reasoning_effort', 'reasoning')
      ? [{ param: 'reasoning', message: `${provider} can be told whether to think, not how much.` }]
      : []),
    ...(reasoning.exclude === true && !says('reasoning')
      ? [{ param: 'reasoning.exclude', message: `${provider} shows the reasoning there is.` }]
      : []),
  ]
}

function effortField(field: EffortField, reasoning: Reasoning, target: ParameterTarget): LoweredFields {
  const on = switchOf(reasoning)
  const plain = (fields: JsonObject): LoweredFields => ({ fields, warnings: [] })
  switch (field) {
    case 'reasoning_effort':
      return namedEffort(reasoning, target)
    case 'reasoning': {
      const effort = reasoning.effort === 'max' ? 'xhigh' : reasoning.effort
      // The two exclude each other; a budget is the more exact wish.
      const amount: JsonObject =
        reasoning.maxTokens !== undefined
          ? { max_tokens: reasoning.maxTokens }
          : effort !== undefined
            ? { effort }
            : {}
      return plain({
        reasoning: {
          ...amount,
          ...(reasoning.enabled === undefined ? {} : { enabled: reasoning.enabled }),
          ...(reasoning.exclude === undefined ? {} : { exclude: reasoning.exclude }),
        },
      })
    }
    case 'thinking':
      return plain(on === undefined ? {} : { thinking: { type: on ? 'enabled' : 'disabled' } })
    case 'enable_thinking': {
      const budget: JsonObject =
        on === true && reasoning.maxTokens !== undefined ? { thinking_budget: reasoning.maxTokens } : {}
      return plain(on === undefined ? {} : { enable_thinking: on, ...budget })
    }
    case 'chat_template_kwargs':
      return plain(on === undefined ? {} : { chat_template_kwargs: { enable_thinking: on } })
  }
}

/** Whether the model shall think at all; undefined when the client left that to it. */
export function switchOf(reasoning: Reasoning): boolean | undefined {
  if (reasoning.effort === 'none' || reasoning.enabled === false) return false
  return reasoning.effort !== undefined || reasoning.maxTokens !== undefined ? true : reasoning.enabled
}

/** All efforts there are, weakest first. */
const scale = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

function namedEffort(reasoning: Reasoning, target: ParameterTarget): LoweredFields {
  const wanted =
    switchOf(reasoning) === false ? 'none' : (reasoning.effort ?? effortOfBudget(reasoning.maxTokens))
  if (wanted === undefined) return nothingLowered
  const understood = target.efforts ? Object.keys(target.efforts) : target.quirks.efforts
  // A provider that switches thinking off by another field needs no word for it here.
  if (wanted === 'none' && !understood.includes('none') && target.quirks.effortFields.length > 1)
    return nothingLowered
  const effort = nearestEffort(wanted, understood)
  const exact = effort === wanted && reasoning.maxTokens === undefined
  const message =
    reasoning.maxTokens === undefined
      ? `The effort '${wanted}' was sent as '${effort}', the nearest that ${target.efforts ? target.model : target.provider} has.`
      : `A reasoning budget was sent as the effort '${effort}': ${target.provider} takes no number of tokens.`
  return {
    fields: { reasoning_effort: target.efforts?.[effort] ?? effort },
    warnings: exact ? [] : [{ param: 'reasoning', message }],
  }
}

/** The nearest supported effort; of two the weaker, which costs less, but never none for some. */
function nearestEffort(wanted: string, understood: readonly string[]): string {
  const place = scale.indexOf(wanted)
  const distance = (effort: string) => Math.abs(scale.indexOf(effort) - place)
  const candidates = wanted === 'none' ? understood : understood.filter((effort) => effort !== 'none')
  return candidates.reduce(
    (best, effort) => (distance(effort) < distance(best) ? effort : best),
    candidates[0] ?? wanted,
  )
}

/** The effort whose usual spending is nearest to a budget of this many tokens. */
function effortOfBudget(maxTokens: number | undefined): Reasoning['effort'] {
  if (maxTokens === undefined) return undefined
  if (maxTokens <= 2048) return 'low'
  return maxTokens <= 8192 ? 'medium' : 'high'
}
