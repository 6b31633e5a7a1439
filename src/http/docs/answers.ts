// What the schemas of answers are made of.

import { z } from 'zod'

/** By method and path, as in the table of routes. */
export type Answers = Readonly<Record<string, z.ZodType>>

/** Data within a larger answer. */
export const data = <Item extends z.ZodType>(item: Item) => z.strictObject({ data: item })

/** A page of a list with the cursor of the next. */
export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({ data: z.array(item), has_more: z.boolean(), next_cursor: z.string().nullable() })
