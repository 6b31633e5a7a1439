// Guards: what looks at the texts of a call at two points, and may change them or refuse the call. Masks and hooks are one
// pipeline: first all masks, then the hooks in their order. `request` is whatever leaves for a provider or a tool, and what
// tools bring back; `response` is whatever goes to the client.

import { z } from 'zod'
import { GatewayError } from '../errors/errors.ts'
import { type Mask, maskJsonSteps, maskSteps, partsSteps, type TextPart, withTextsSteps } from './masks.ts'

export const guardEvents = ['request', 'response'] as const
export type GuardEvent = (typeof guardEvents)[number]

/** An address that is asked. */
export interface Hook {
  /** For receipts, logs and errors: its host. */
  readonly name: string
  readonly on: readonly GuardEvent[]
  /** What follows when it does not answer, or not as it should: the call ends, or goes on. */
  readonly fail: 'closed' | 'open'
  /** Sends a question; resolves with what came back as JSON. Rejects where nothing came in time, or it was no answer. */
  ask(question: object): Promise<unknown>
}

/** The guards of an installation. */
export interface GuardSet {
  readonly masks: Readonly<Record<GuardEvent, readonly Mask[]>>
  readonly hooks: readonly Hook[]
}

/** What a guard has decided, as often. */
export interface GuardDecision {
  readonly guard: string
  readonly on: GuardEvent
  readonly decision: 'allow' | 'deny' | 'replace' | 'failed'
  /** The hook's own code of a denial. */
  readonly code?: string
  times: number
}

/** Whose call it is. */
export interface GuardedCall {
  readonly requestId: string
  /** Ids of the account and of the key; null for a call of the app. */
  readonly account: string
  readonly key: string | null
  /** As it was asked for. */
  readonly model: string
}

/** What guards are run with. */
export interface GuardRim {
  /** Runs work in steps, between which others have their turn. */
  run<Result>(steps: Generator<void, Result, void>): Promise<Result>
  /** Notes that a hook is asked: the returned function is called when it has decided. */
  asks(call: GuardedCall, hook: string, on: GuardEvent): (decision: GuardDecision['decision']) => void
}

/** What a hook may answer. */
const hookAnswer = z.discriminatedUnion('decision', [
  z.looseObject({ decision: z.literal('allow') }),
  z.looseObject({
    decision: z.literal('deny'),
    code: z
      .string()
      .regex(/^[\w.-]{1,64}$/)
      .optional(),
    message: z.string().min(1).max(2_000).optional(),
  }),
  z.looseObject({
    decision: z.literal('replace'),
    document: z.looseObject({ parts: z.array(z.looseObject({ id: z.string(), text: z.string() })) }),
  }),
])

/** What is sent of a part. */
export interface AskedPart extends TextPart {
  /** The name of the tool that is called. */
  readonly name?: string
  /** What the client has been sent before it. */
  readonly before?: string
}

/** The guards of one call, and what they have decided. */
export class CallGuard {
  readonly call: GuardedCall
  readonly #set: GuardSet
  readonly #rim: GuardRim
  readonly #decisions: GuardDecision[] = []

  constructor(set: GuardSet, call: GuardedCall, rim: GuardRim) {
    this.call = call
    this.#set = set
    this.#rim = rim
  }

  /** In the order of the first time. */
  get decisions(): readonly GuardDecision[] {
    return this.#decisions
  }

  has(on: GuardEvent): boolean {
    return this.#set.masks[on].length > 0 || this.hasHooks(on)
  }

  hasHooks(on: GuardEvent): boolean {
    return this.#set.hooks.some((hook) => hook.on.includes(on))
  }

  masks(on: GuardEvent): readonly Mask[] {
    return this.#set.masks[on]
  }

  /** Called with the name of a mask for each thing that it takes out. */
  onFound(on: GuardEvent): (name: string) => void {
    return (guard) => this.#note({ guard, on, decision: 'replace' })
  }

  /**
   * A value with its texts as the guards leave them; the same value where they change nothing. `replaced` maps every text
   * that was changed to what stands in its place. Rejects with `guardrail_denied` and `guardrail_failed`.
   */
  async check<Value>(
    on: GuardEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly replaced: ReadonlyMap<string, string> }> {
    const replaced = new Map<string, string>()
    if (!this.has(on)) return { value, replaced }
    const parts = await this.#rim.run(partsSteps(value))
    const texts = await this.texts(on, parts)
    for (const [index, { text }] of parts.entries())
      if (texts[index] !== text) replaced.set(text, texts[index]!)
    if (replaced.size === 0) return { value, replaced }
    return { value: await this.#rim.run(withTextsSteps(value, texts)), replaced }
  }

  /** A value with its texts masked alone. */
  async mask<Value>(on: GuardEvent, value: Value): Promise<Value> {
    if (this.masks(on).length === 0) return value
    const texts = await this.maskTexts(on, await this.#rim.run(partsSteps(value)))
    return this.#rim.run(withTextsSteps(value, texts))
  }

  /** The texts of these parts as the guards leave them. Rejects as `check` does. */
  async texts(on: GuardEvent, parts: readonly AskedPart[], isLast = true): Promise<readonly string[]> {
    return this.ask(on, parts, await this.maskTexts(on, parts), isLast)
  }

  /** The same of texts that are masked. `isLast`: no more of them follows. */
  async ask(
    on: GuardEvent,
    parts: readonly AskedPart[],
    masked: readonly string[],
    isLast = true,
  ): Promise<readonly string[]> {
    let texts = masked
    for (const hook of this.#set.hooks)
      if (hook.on.includes(on) && parts.length > 0) texts = await this.#ask(hook, on, parts, texts, isLast)
    return texts
  }

  /** The texts of these parts, masked. */
  async maskTexts(
    on: GuardEvent,
    parts: readonly Pick<TextPart, 'kind' | 'text'>[],
  ): Promise<readonly string[]> {
    const masks = this.masks(on)
    if (masks.length === 0) return parts.map(({ text }) => text)
    const texts: string[] = []
    for (const part of parts) texts.push(await this.#rim.run(maskPartSteps(part, masks, this.onFound(on))))
    return texts
  }

  async #ask(
    hook: Hook,
    on: GuardEvent,
    parts: readonly AskedPart[],
    texts: readonly string[],
    isLast: boolean,
  ): Promise<readonly string[]> {
    const { requestId: request_id, account, key, model } = this.call
    const shown = parts.map(({ signed, ...part }, index) => ({
      ...part,
      ...(signed && { signed }),
      text: texts[index],
    }))
    const document = { parts: shown, ...(on === 'response' && { last: isLast }) }
    const onDecision = this.#rim.asks(this.call, hook.name, on)
    const noteDecision = (decision: GuardDecision['decision'], code?: string) => {
      onDecision(decision)
      this.#note({ guard: hook.name, on, decision, ...(code === undefined ? {} : { code }) })
    }
    let made: readonly string[] | Denial
    try {
      made = readAnswer(
        await hook.ask({ event: on, request_id, account, key, model, document }),
        parts,
        texts,
      )
    } catch (cause) {
      noteDecision('failed')
      if (hook.fail === 'open') return texts
      throw new GatewayError('guardrail_failed', { metadata: { guardrail: hook.name, on }, cause })
    }
    if ('denied' in made) {
      const { code, message } = made.denied
      noteDecision('deny', code)
      throw new GatewayError('guardrail_denied', {
        ...(message !== undefined && { message }),
        metadata: { guardrail: hook.name, on, ...(code !== undefined && { code }) },
      })
    }
    noteDecision(made === texts ? 'allow' : 'replace')
    return made
  }

  #note(decision: Omit<GuardDecision, 'times'>): void {
    const { guard, on, decision: what, code } = decision
    const known = this.#decisions.find(
      (each) => each.guard === guard && each.on === on && each.decision === what && each.code === code,
    )
    if (known === undefined) this.#decisions.push({ ...decision, times: 1 })
    else known.times++
  }
}

interface Denial {
  readonly denied: { readonly code?: string | undefined; readonly message?: string | undefined }
}

/** The texts that an answer leaves, or why it denies them. Throws for one that is none. */
function readAnswer(
  answer: unknown,
  parts: readonly TextPart[],
  texts: readonly string[],
): readonly string[] | Denial {
  const read = hookAnswer.parse(answer)
  if (read.decision === 'allow') return texts
  if (read.decision === 'deny') return { denied: { code: read.code, message: read.message } }
  const indexes = new Map(parts.map(({ id }, index) => [id, index]))
  const made = [...texts]
  for (const { id, text } of read.document.parts) {
    const index = indexes.get(id)
    if (index === undefined) throw new Error('the answer replaces a part that was not sent, or one twice')
    indexes.delete(id)
    if (parts[index]!.kind === 'arguments' && isJson(texts[index]!) && !isJson(text))
      throw new Error('the answer replaces JSON by what is none')
    made[index] = text
  }
  return made
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function maskPartSteps(
  { kind, text }: Pick<TextPart, 'kind' | 'text'>,
  masks: readonly Mask[],
  onFound: (name: string) => void,
): Generator<void, string, void> {
  // Of text that is to be JSON and is none, everything is looked at.
  return kind === 'arguments' && isJson(text)
    ? maskJsonSteps(text, masks, onFound)
    : maskSteps(text, masks, onFound)
}
