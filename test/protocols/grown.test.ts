// The growing list behaves as an immutable array would, also when an old one grows again.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Grown } from '../../src/protocols/grown.ts'

test('every list keeps its items whichever list grows, changes or is asked', () => {
  const step = fc.record({
    from: fc.nat(),
    item: fc.nat(5),
    replaces: fc.option(fc.nat(), { nil: undefined }),
    asks: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const lists: [Grown<number>, readonly number[]][] = [[Grown.empty<number>(), []]]
      for (const { from, item, replaces, asks } of steps) {
        const [list, model] = lists[from % lists.length]!
        if (asks) expect(list.has(item)).toBe(model.includes(item))
        if (replaces === undefined || model.length === 0) lists.push([list.plus(item), [...model, item]])
        else {
          const index = replaces % model.length
          lists.push([list.with(index, item), model.with(index, item)])
        }
      }
      for (const [list, model] of lists) {
        expect(list.items()).toEqual([...model])
        expect(list.length).toBe(model.length)
        expect(list.at(model.length)).toBeUndefined()
        for (let item = 0; item < 6; item++) {
          expect(list.has(item)).toBe(model.includes(item))
          expect(list.lastIndexOf(item)).toBe(model.lastIndexOf(item))
        }
      }
    }),
  )
})
