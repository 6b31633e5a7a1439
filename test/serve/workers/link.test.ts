// The link between the ledger's process and a worker.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/errors/errors.ts'
import { frameOf, FrameReader, packValue, unpackValue } from '../../../src/serve/workers/link.ts'
import { joined } from './pair.ts'

const acrossJson = (value: unknown) => unpackValue(JSON.parse(JSON.stringify(packValue(value))))

describe('values', () => {
  test('cross as they are: text, numbers, bigint, bytes, undefined in lists, names such as __proto__', () => {
    const leaf = fc.oneof(
      fc.string(),
      fc.string().map((text) => `~${text}`),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
      fc.bigInt(),
      fc.boolean(),
      fc.constant(null),
      fc.uint8Array(),
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        leaf,
        fc.array(fc.oneof(tie('value'), fc.constant(undefined))),
        fc.dictionary(fc.oneof(fc.string(), fc.constant('__proto__')), tie('value')),
      ),
    }))
    fc.assert(
      fc.property(value, (given) => {
        expect(acrossJson(given)).toEqual(given)
      }),
    )
  })

  test('a property that is undefined stays one, and nothing is written onto prototypes', () => {
    expect(acrossJson({ a: undefined, b: 1 })).toStrictEqual({ a: undefined, b: 1 })
    const hostile = JSON.parse('{"__proto__":{"isAdmin":true}}') as object
    const crossed = acrossJson(hostile) as object
    expect(Object.keys(crossed)).toEqual(['__proto__'])
    expect(Reflect.get({}, 'isAdmin')).toBeUndefined()
  })

  test.each([
    ['a function', () => 1],
    ['a number that is none', Number.NaN],
    ['an endless one', Number.POSITIVE_INFINITY],
    ['a date', new Date(0)],
    ['a map', new Map()],
    ['a symbol', Symbol('x')],
  ])('%s is refused: the other side could not have it', (_, value) => {
    expect(() => packValue({ value })).toThrow(TypeError)
  })
})

describe('frames', () => {
  test('are put together from any pieces, and several from one', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.json(), { minLength: 1, maxLength: 4 }), { maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        (batches, cuts) => {
          const bytes = Buffer.concat(batches.map(frameOf))
          const reader = new FrameReader()
          const contents: string[] = []
          for (let at = 0, turn = 0; at < bytes.length; turn++) {
            const size = cuts[turn % cuts.length]!
            contents.push(...reader.take(bytes.subarray(at, at + size)))
            at += size
          }
          expect(contents).toEqual(batches.map((batch) => `[${batch.join(',')}]`))
        },
      ),
    )
  })

  test('bytes that are no frame are refused before they are gathered', () => {
    expect(() => new FrameReader().take(Buffer.from('GET / HTTP/1.1'))).toThrow(RangeError)
  })
})

describe('a link', () => {
  test('carries requests out in the order they were sent, whatever else is said in between; replies may overtake', async () => {
    const order: string[] = []
    const { ours } = joined(
      {
        async slow(name: string) {
          order.push(name)
          await Bun.sleep(2)
          return name
        },
        quick: (name: string) => {
          order.push(name)
          return name
        },
        note: (name: string) => void order.push(name),
      },
      {},
      7,
    )
    const answered: string[] = []
    const asked = [ours.request('slow', 'a'), ours.request('quick', 'b')]
    ours.notify('note', 'c')
    asked.push(ours.request('slow', 'd'), ours.request('quick', 'e'))
    await Promise.all(asked.map(async (each) => answered.push(await each)))
    expect(order).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(answered.slice(0, 2)).toEqual(['b', 'e'])
    expect(answered.toSorted()).toEqual(['a', 'b', 'd', 'e'])
  })

  test('both sides ask; figures and what is missing come back as they are', async () => {
    const { ours, theirs } = joined(
      { add: (a: bigint, b: bigint) => a + b, nothing: () => undefined },
      { twice: (bytes: Uint8Array): Uint8Array => Buffer.concat([bytes, bytes]) },
      100,
    )
    expect(await ours.request('add', 2n ** 62n, 1n)).toBe(2n ** 62n + 1n)
    expect(await ours.request('nothing')).toBeUndefined()
    const large = new Uint8Array(3_000).fill(7)
    expect(await theirs.request('twice', large)).toEqual(new Uint8Array(6_000).fill(7))
  })

  test('a refusal crosses with its code and its details, and without its cause; what is no refusal is a fault here', async () => {
    const { ours, faults } = joined(
      {
        refuse: (): number => {
          throw new GatewayError('rate_limit_exceeded', {
            retryAfterMs: 1500,
            metadata: { needed: '1' },
            cause: new Error('secret'),
          })
        },
        refuseLater: async (): Promise<number> => {
          await Bun.sleep(1)
          throw new GatewayError('store_unavailable')
        },
        break: (): number => {
          throw new Error('a bug')
        },
      },
      {},
    )
    const refused = await ours.request('refuse').catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(GatewayError)
    expect(refused).toMatchObject({
      code: 'rate_limit_exceeded',
      details: { retryAfterMs: 1500, metadata: { needed: '1' } },
    })
    expect((refused as GatewayError).cause).toBeUndefined()
    expect(faults).toEqual([])
    await expect(ours.request('refuseLater')).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(ours.request('break')).rejects.toThrow('a bug')
    expect(faults).toHaveLength(1)
  })

  test('only what is offered can be asked for', async () => {
    const { ours } = joined({} as { toString(): string }, {})
    await expect(ours.request('toString')).rejects.toThrow('nobody answers toString')
  })

  test('when it breaks, whoever waits is refused at once, and so is whoever asks later', async () => {
    const never = Promise.withResolvers<number>()
    const { ours, cut } = joined({ wait: () => never.promise }, {})
    const waiting = ours.request('wait')
    await Bun.sleep(1)
    cut()
    await expect(waiting).rejects.toMatchObject({ code: 'store_unavailable' })
    await expect(ours.request('wait')).rejects.toMatchObject({ code: 'store_unavailable' })
  })

  test('what was told before its end arrives, and what was begun is settled', async () => {
    const heard: number[] = []
    const { ours, theirs } = joined(
      {
        note: (number: number) => void heard.push(number),
        work: async () => {
          await Bun.sleep(5)
          heard.push(-1)
        },
      },
      {},
      50,
    )
    const done = ours.request('work').catch((error: { code: string }) => error.code)
    for (let number = 0; number < 100; number++) ours.notify('note', number)
    ours.end()
    expect(await done).toBe('store_unavailable')
    await theirs.whenSettled()
    expect(heard).toEqual([...Array.from({ length: 100 }, (_, number) => number), -1])
  })

  test('knows when the other side takes too little', async () => {
    const { ours, pause, resume } = joined({ take: (text: string) => text.length }, {}, 8 * 1024 ** 2)
    pause()
    const text = 'x'.repeat(1024 ** 2)
    const asked = Array.from({ length: 40 }, () => ours.request('take', text))
    await Bun.sleep(1)
    expect(ours.congested).toBe(true)
    resume()
    expect(await Promise.all(asked)).toEqual(asked.map(() => text.length))
    expect(ours.congested).toBe(false)
  })
})
