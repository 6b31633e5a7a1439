// A virtual model: a name of the operator's own in front of several models, as it is written in the configuration.

import { z } from 'zod'
import { parseUsd } from '../credits/money.ts'

/** How the members of a route are put in order for a call. */
export const picks = ['order', 'weight', 'price', 'latency'] as const

const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

const memberSchema = z.union(
  [
    z.string().min(1),
    z.strictObject({ model: z.string().min(1), weight: z.number().positive().max(1_000_000).optional() }),
  ],
  {
    error: 'must be a model id, or model and weight',
  },
)

export const routeSchema = z.strictObject({
  to: z
    .array(memberSchema)
    .min(1)
    .max(32)
    .describe('The models it stands for: ids, or model and weight. They may be routes themselves.'),
  pick: z
    .enum(picks)
    .optional()
    .describe(
      'Which is asked first: `order` as written; `weight` by shares, the same for every call of an account; `price` the ' +
        'cheapest; `latency` the quickest of late. Without it `weight` where a weight is given, else `order`.',
    ),
  continue: z
    .boolean()
    .optional()
    .describe('Whether another member goes on with a stream that has broken off within its text.'),
  fallback_on_content_filter: z
    .boolean()
    .optional()
    .describe('Whether the next member is asked when the content filter of one has refused the prompt.'),
  defaults: z
    .strictObject({
      temperature: z.number().min(0).max(2).optional(),
      top_p: z.number().min(0).max(1).optional(),
      max_tokens: z.int().positive().optional(),
      reasoning: z.enum(efforts).optional().describe('The effort.'),
      system: z.string().min(1).optional().describe("Put before the client's own instructions."),
      max_cost: z
        .string()
        .refine((text) => (parseUsd(text) ?? 0n) > 0n, 'must be US dollars as a string, such as "0.05"')
        .optional(),
      cache: z
        .strictObject({ ttl: z.number().min(0).max(2_592_000) })
        .optional()
        .describe('How old, in seconds, an answer to the same request may be that is given again.'),
    })
    .optional()
    .describe('What calls get that do not say it themselves. `system` is added to every chat call.'),
})

type WrittenRoute = z.infer<typeof routeSchema>
export type RouteDefaults = NonNullable<WrittenRoute['defaults']>

export interface ModelRoute {
  readonly pick: (typeof picks)[number]
  readonly members: readonly RouteMember[]
  readonly defaults: RouteDefaults
  /** What follows when a content filter has refused the prompt; undefined for what the request says. */
  readonly afterFilter: 'end' | 'fallback' | undefined
  /** Whether another member goes on with a stream that has broken off; undefined for what the request says. */
  readonly continues: boolean | undefined
}

export interface RouteMember {
  /** The id of a model, or of another route. */
  readonly id: string
  readonly weight: number
}

/** The route with what is left open filled in. */
export function routeOf({
  to,
  pick,
  defaults = {},
  fallback_on_content_filter: falls,
  continue: continues,
}: WrittenRoute): ModelRoute {
  const isWeighted = to.some((member) => typeof member !== 'string' && member.weight !== undefined)
  return {
    pick: pick ?? (isWeighted ? 'weight' : 'order'),
    members: to.map((member) =>
      typeof member === 'string'
        ? { id: member, weight: 1 }
        : { id: member.model, weight: member.weight ?? 1 },
    ),
    defaults,
    afterFilter: falls === undefined ? undefined : falls ? 'fallback' : 'end',
    continues,
  }
}

/**
 * The first way from `id` back to itself over `membersOf`, as ids; undefined if there is none. A route that leads to
 * itself would never come to a model.
 */
export function loopFrom(
  id: string,
  membersOf: (id: string) => readonly string[],
): readonly string[] | undefined {
  const dead = new Set<string>()
  const follow = (at: string, way: readonly string[]): readonly string[] | undefined => {
    for (const next of membersOf(at)) {
      if (next === id) return [...way, next]
      if (dead.has(next)) continue
      dead.add(next)
      const found = follow(next, [...way, next])
      if (found) return found
    }
    return undefined
  }
  return follow(id, [id])
}
