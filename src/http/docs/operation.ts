// How routes describe themselves for the API documentation.

import { z } from 'zod'
import type { ErrorCode } from '../../errors/errors.ts'
import type { ErrorShape } from './openapi-errors.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description: string
  readonly schema: object
  readonly example?: string
}

/** A body by media type. */
export type Content = Readonly<Record<string, object>>

export interface Operation {
  readonly id: string
  /** The path with `{name}` parameters; that of the route by default. */
  readonly path?: string
  readonly tag: Tag
  readonly summary: string
  readonly description: string
  /** `cookie`: the console's session. `either`: a key as bearer or `x-api-key`. `google`: also as `x-goog-api-key`. */
  readonly security: 'key' | 'either' | 'google' | 'session' | 'cookie' | 'management' | 'none'
  readonly parameters?: readonly Parameter[]
  readonly body?: Content
  /** The answers that are not errors, by status. */
  readonly answers: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>
  readonly errors: readonly ErrorCode[]
  /** The contract's own shape by default. */
  readonly errorShape?: ErrorShape
  /** The wire schemas that bodies and answers refer to, by name. */
  readonly schemas?: Readonly<Record<string, z.ZodType | DescribedSchema>>
}

/** A schema with separate descriptions of its fields. */
export interface DescribedSchema {
  readonly schema: z.ZodType
  readonly fields: Readonly<Record<string, string>>
}

export const tags = {
  Chat: 'Calls to models, their price before and their receipt after.',
  Responses: 'Calls in the Responses protocol, and what is stored of them.',
  Models: 'The catalog: every model that is sold here, with its price.',
  Account: 'What a key may know of itself and its account.',
  App: 'The same contract for signed-in accounts, under `/app/v1`. All pools of credit pay, not purchased credit alone.',
  Payments:
    'Where payment processors send their messages. The signature over the raw body is checked before anything of it is read; an address whose secret is not set does not exist.',
  Console:
    'What the console’s pages call. Its bodies are closed, and what changes something must come from its own origin.',
  Admin:
    'What operators do, for programs: with a management key (`weir keys create --management`) as the bearer, which makes no calls, as API keys administer nothing. Bodies and parameters are closed; every change is recorded.',
  Service: 'The gateway itself.',
} as const

type Tag = keyof typeof tags

export function json(schema: string, example?: object): Content {
  return { 'application/json': { ...schemaOf(schema), ...(example === undefined ? {} : { example }) } }
}

export function schemaOf(name: string) {
  return { schema: { $ref: `#/components/schemas/${name}` } }
}

export function text(name: string, description: string, example?: string): Parameter {
  return {
    name,
    in: 'query',
    description,
    schema: { type: 'string' },
    ...(example === undefined ? {} : { example }),
  }
}

/** Headers of every request that costs money. */
export const callHeaders: readonly Parameter[] = [
  {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'A request that is sent again with the same key and body is not served again: it gets the answer of the first, for nothing, with `idempotency-replayed: true`.',
    schema: { type: 'string', maxLength: 255 },
  },
  {
    name: 'x-weir-tags',
    in: 'header',
    description:
      'What the call is for, by which usage is divided: at most 16 pairs, names of at most 64 characters and values of at most 512, percent-encoded where they have a comma, a percent sign or anything beyond ASCII. `user` is who it is made for.',
    schema: { type: 'string' },
    example: 'team=search,feature=chat',
  },
]

// Kinds of fields that many answers have.

export const usd = z.string().describe('US dollars, an exact decimal string.')
export const time = z.string().describe('ISO 8601, UTC.')
export const count = z.int().min(0)
export const milliseconds = z.number().describe('Milliseconds.')

// What the schemas of answers are made of.

/** By method and path, as in the table of routes. */
export type Answers = Readonly<Record<string, z.ZodType>>

/** Data within a larger answer. */
export const data = <Item extends z.ZodType>(item: Item) => z.strictObject({ data: item })

/** A page of a list with the cursor of the next. */
export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({ data: z.array(item), has_more: z.boolean(), next_cursor: z.string().nullable() })

/** What a schema describes, for who builds it and who reads it. */
export type Wire<Schema extends z.ZodType> = DeepReadonly<z.output<Schema>>

/** Such a page, of items whose type is known. */
export type Page<Item> = Omit<Wire<ReturnType<typeof pageOf<z.ZodType>>>, 'data'> & {
  readonly data: readonly Item[]
}

type DeepReadonly<Value> = Value extends object
  ? { readonly [Key in keyof Value]: DeepReadonly<Value[Key]> }
  : Value
