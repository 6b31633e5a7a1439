// Work that is waited for only so long.

import { describe, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { ShortLivedMap, ShortLivedSet, repeat, settledWithin, type Placed } from '../../src/async/async.ts'
import { edenGC, fullGC } from 'bun:jsc'

const source = resolve(import.meta.dir, '../../src/async/async.ts')
const never = new Promise<never>(() => undefined)

describe('what is waited for only so long', () => {
  test('is not waited for longer, and may fail or not be there', async () => {
    expect(await settledWithin(1, never)).toBeUndefined()
    expect(await settledWithin(60_000, Promise.reject(new Error('of the work')))).toBeUndefined()
    expect(await settledWithin(60_000, undefined)).toBeUndefined()
  })

  test('does not keep a process that has nothing else to do', async () => {
    const script = `
      import { settledWithin } from ${JSON.stringify(source)}
      await settledWithin(3_600_000, Promise.resolve())`
    const child = Bun.spawn([process.execPath, '-e', script], { stdio: ['ignore', 'ignore', 'inherit'] })
    expect(await child.exited).toBe(0)
  })
})

// What comes and goes with every call must not outlive it: a Map or a Set of the engine keeps it until the next full
// garbage collection.

class Member implements Placed {
  place = -1
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

describe('a set', () => {
  test('keeps nothing that has left it', async () => {
    const set = new ShortLivedSet<Member>()
    const kept = await outliving(
      (member) => set.add(member),
      (member) => set.delete(member),
    )
    expect(kept).toBeLessThan(mostKept)
  })

  test('has its members once, whatever the order of coming and going', () => {
    const set = new ShortLivedSet<Member>()
    const [a, b, c] = [new Member('a'), new Member('b'), new Member('c')]
    for (const member of [a, b, b, c, a]) set.add(member)
    expect(set.size).toBe(3)
    expect(set.delete(a)).toBe(true)
    expect(set.delete(a)).toBe(false)
    expect(names(set)).toEqual(['b', 'c'])
    set.add(a)
    expect(set.delete(c)).toBe(true)
    expect(names(set)).toEqual(['a', 'b'])
    for (const member of set.values()) set.delete(member)
    expect(set.size).toBe(0)
  })
})

describe('a map', () => {
  test('keeps nothing that has left it', async () => {
    const map = new ShortLivedMap<string, Member>()
    const kept = await outliving(
      (member) => map.set(member.name, member),
      ({ name }) => map.take(name),
    )
    expect(kept).toBeLessThan(mostKept)
  })

  test('gives, replaces and takes values by key', () => {
    const map = new ShortLivedMap<string, number>()
    map.set('a', 1)
    map.set('b', 2)
    map.set('a', 3)
    expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([3, 2, undefined])
    expect(map.keys()).toEqual(['a', 'b'])
    expect(map.values()).toEqual([3, 2])
    expect([map.take('a'), map.take('a')]).toEqual([3, undefined])
    expect([map.has('a'), map.has('b'), map.size]).toEqual([false, true, 1])
  })
})

/** Of 4,000: those that were inside during a young collection, 250, may live on. The engine's own keep 3,300. */
const mostKept = 1_000

/** How many of 4,000 values that came and went, 32 at a time, have outlived nine young collections. */
async function outliving(add: (member: Member) => void, remove: (member: Member) => void): Promise<number> {
  const passed: WeakRef<Member>[] = []
  const inside: Member[] = []
  fullGC()
  for (let n = 0; n < 4_000; n++) {
    const member = new Member(`call-${n}`)
    passed.push(new WeakRef(member))
    inside.push(member)
    add(member)
    if (inside.length >= 32) remove(inside.shift()!)
    if (n % 500 === 499) await collectYoung()
  }
  for (const member of inside.splice(0)) remove(member)
  await collectYoung()
  return passed.filter((each) => each.deref() !== undefined).length
}

/** A weak reference that was read or made keeps its value until the turn of the loop has ended. */
async function collectYoung(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
  edenGC()
}

function names(set: ShortLivedSet<Member>): string[] {
  return set
    .values()
    .map(({ name }) => name)
    .toSorted()
}

test('what is repeated is never done twice at a time, and goes on after a failure', async () => {
  const third = Promise.withResolvers<void>()
  let [running, most, rounds] = [0, 0, 0]
  const failures: unknown[] = []
  const act = async () => {
    most = Math.max(most, ++running)
    // Longer than a round: the next one would begin meanwhile.
    await Bun.sleep(10)
    running--
    rounds++
    if (rounds === 1) throw new Error('first')
    if (rounds === 3) third.resolve()
  }
  const repeated = repeat(1, act, (error) => failures.push(error))
  await third.promise
  repeated.stop()
  expect([most, failures.map(String)]).toEqual([1, ['Error: first']])
})
