// Masks and hooks from configuration, and how hooks are asked.

import { randomBytes } from 'node:crypto'
import type { Config } from '../../config/config.ts'
import { readExpression } from '../../guards/expression.ts'
import { type GuardEvent, guardEvents, type GuardSet, type Hook } from '../../guards/guards.ts'
import { type Mask, type MaskShape, shapes } from '../../guards/masks.ts'
import { parseSteps } from '../../json/json.ts'
import { signatureHeaders } from '../../payments/processor.ts'
import type { Scheduler } from '../../scheduler/scheduler.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'

/** What an answer may measure beside the texts that it was asked about, bytes. */
const answerBytes = 65_536

/** The guards of a configuration; undefined where it has none. */
export function guardsOf(
  { hooks, masks }: Pick<Config, 'hooks' | 'masks'>,
  scheduler: Pick<Scheduler, 'stringify' | 'runDivisible'>,
  now: () => number,
): GuardSet | undefined {
  if (hooks.length === 0 && masks.length === 0) return undefined
  const masksOn = (event: GuardEvent) => masks.filter(({ on }) => on.includes(event)).map(maskOf)
  const [request, response] = guardEvents.map(masksOn) as [Mask[], Mask[]]
  return { masks: { request, response }, hooks: hooks.map((hook) => hookOf(hook, scheduler, now)) }
}

function maskOf({ find, expression, with: replacement = `[${find}]` }: Config['masks'][number]): Mask {
  if (expression !== undefined) return { name: find, find: readExpression(expression), replacement }
  const shape = shapes.find((each) => each === find) as MaskShape
  return { name: find, find: shape, replacement }
}

function hookOf(
  { url, on, fail, secret, timeout_ms: timeoutMs }: Config['hooks'][number],
  scheduler: Pick<Scheduler, 'stringify' | 'runDivisible'>,
  now: () => number,
): Hook {
  const ask = async (question: object): Promise<unknown> => {
    const body = await scheduler.stringify(question)
    const id = `msg_${randomBytes(12).toString('hex')}`
    const response = await fetchBounded(
      url,
      {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'Weir',
          ...signatureHeaders(secret, id, now(), body),
        },
        body,
        redirect: 'error',
        signal: AbortSignal.timeout(timeoutMs),
      },
      2 * Buffer.byteLength(body) + answerBytes,
    )
    const text = await response.text()
    if (response.status !== 200) throw new Error(`the hook answered ${response.status}`)
    return scheduler.runDivisible(() => parseSteps(text))
  }
  return { name: new URL(url).host, on, fail, ask }
}
