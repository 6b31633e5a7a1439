// The queue of commands over a database that takes its time, as one across a network does: it commits later, in order,
// one group at a time, and what goes wrong costs nobody an answer.

import { afterEach, describe, expect, jest, test } from 'bun:test'
import type { Awaitable } from '../../../src/async/async.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { CommitQueue } from '../../../src/store/commits/commit-queue.ts'
import {
  type CommitFault,
  defaultGroupLimits,
  type NeededRows,
  type Transactions,
} from '../../../src/store/commits/durability.ts'

class Outage extends Error {}
class Busy extends Error {}

/** Commits when the test says so. What was run is undone when the commit fails. */
class SlowDatabase implements Transactions {
  readonly committed: string[] = []
  readonly groups: number[] = []
  fault: Error | undefined
  forgotten = 0
  #written: string[] = []
  #open = 0
  #waiting: (() => void)[] = []

  write(entry: string): string {
    this.#written.push(entry)
    return entry
  }

  async commit<T>(needs: readonly NeededRows[], run: () => T): Promise<T> {
    expect(++this.#open).toBe(1)
    try {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      const value = run()
      if (this.fault) throw this.fault
      this.committed.push(...this.#written)
      this.groups.push(needs.length)
      return value
    } finally {
      this.#written = []
      this.#open--
    }
  }

  /** Lets the commit under way end. */
  async answer(): Promise<void> {
    while (this.#waiting.length === 0) await new Promise((resolve) => setImmediate(resolve))
    this.#waiting.shift()!()
    await new Promise((resolve) => setImmediate(resolve))
  }

  touch(): void {}

  faultOf(error: unknown): CommitFault {
    return error instanceof Outage ? 'outage' : error instanceof Busy ? 'busy' : 'bug'
  }

  forget(): void {
    this.forgotten++
  }

  close(): void {}
}

/** Commits at once. */
class QuickDatabase implements Transactions {
  readonly groups: number[] = []

  commit<T>(needs: readonly NeededRows[], run: () => T): Awaitable<T> {
    this.groups.push(needs.length)
    return run()
  }

  touch(): void {}

  faultOf(): CommitFault {
    return 'bug'
  }

  forget(): void {}

  close(): void {}
}

/** Answers its first commit when it thaws, and the next ones at once. */
class FrozenDatabase extends QuickDatabase {
  readonly #asked = Promise.withResolvers<void>()
  readonly #thawed = Promise.withResolvers<void>()
  readonly asked = this.#asked.promise
  readonly thaw = this.#thawed.resolve

  override commit<T>(needs: readonly NeededRows[], run: () => T): Promise<T> {
    this.#asked.resolve()
    return this.#thawed.promise.then(() => super.commit(needs, run))
  }
}

function queueOn(database: Transactions) {
  return new CommitQueue(database, { ...defaultGroupLimits, max: 3 })
}

describe('over a database that answers later', () => {
  test('commands are committed in their order, a group at a time, and answered after their commit', async () => {
    const database = new SlowDatabase()
    const queue = queueOn(database)
    const answers: string[] = []
    const commands = ['a', 'b', 'c', 'd', 'e'].map((name) =>
      queue.admit({}, () => database.write(name)).then((answer) => answers.push(answer)),
    )
    await new Promise((resolve) => setImmediate(resolve))
    expect(answers).toEqual([])
    await database.answer()
    expect(answers).toEqual(['a', 'b', 'c'])
    await new Promise((resolve) => setImmediate(resolve))
    // What comes while a group is being committed waits for the next.
    commands.push(queue.conclude({}, () => database.write('f'), null).then((answer) => answers.push(answer)))
    await database.answer()
    expect(answers).toEqual(['a', 'b', 'c', 'd', 'e'])
    await database.answer()
    await Promise.all(commands)
    expect(database.committed).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    expect(database.groups).toEqual([3, 2, 1])
  })

  test('a command at fault fails alone, the others of its group are committed', async () => {
    const database = new SlowDatabase()
    const queue = queueOn(database)
    const broken = queue.admit({}, () => {
      throw new Error('a bug')
    })
    const refused = queue.admit({}, () => {
      throw new GatewayError('insufficient_credits')
    })
    const fine = queue.admit({}, () => database.write('fine'))
    const failures = Promise.allSettled([broken, refused])
    // The group, and then each of its commands.
    for (let commits = 0; commits < 4; commits++) await database.answer()
    expect(await fine).toBe('fine')
    const [first, second] = await failures
    expect(first).toMatchObject({ status: 'rejected', reason: { code: 'internal_error' } })
    expect(second).toMatchObject({ status: 'rejected', reason: { code: 'insufficient_credits' } })
    expect(database.committed).toEqual(['fine'])
  })

  test('an outage refuses admissions, keeps the ends of calls, and carries them out when it is over', async () => {
    const database = new SlowDatabase()
    const queue = queueOn(database)
    const spilled: unknown[] = []
    queue.spillTo({
      append: (record) => spilled.push(record),
      sync: () => {},
      clear: () => spilled.splice(0),
    })
    database.fault = new Outage()
    const admission = queue.admit({}, () => database.write('hold')).catch((error: GatewayError) => error.code)
    const end = queue.conclude({}, () => database.write('settle'), { settle: 1 })
    await database.answer()
    expect(await admission).toBe('store_unavailable')
    expect(queue.writable).toBe(false)
    expect(spilled).toEqual([{ settle: 1 }])
    database.fault = undefined
    await database.answer()
    await database.answer()
    expect(await end).toBe('settle')
    expect(database.committed).toEqual(['settle'])
    expect(spilled).toEqual([])
    expect(queue.writable).toBe(true)
  })

  test('a spill file that cannot be written, either, ends nothing: it is tried again, and the settle is kept', async () => {
    const database = new SlowDatabase()
    const queue = queueOn(database)
    const spilled: unknown[] = []
    let isReadOnly = true
    const written = (write: () => void) => {
      if (isReadOnly) throw new Error('EROFS')
      write()
    }
    queue.spillTo({
      append: (record) => written(() => spilled.push(record)),
      sync: () => written(() => {}),
      clear: () => written(() => spilled.splice(0)),
    })
    database.fault = new Outage()
    const first = queue.conclude({}, () => database.write('first'), { settle: 1 })
    await database.answer()
    const second = queue.conclude({}, () => database.write('second'), { settle: 2 })
    expect(spilled).toEqual([])
    isReadOnly = false
    await database.answer()
    expect(spilled).toEqual([{ settle: 1 }, { settle: 2 }])
    isReadOnly = true
    database.fault = undefined
    await database.answer()
    await database.answer()
    expect(await Promise.all([first, second])).toEqual(['first', 'second'])
    expect(database.committed).toEqual(['first', 'second'])
    expect(queue.writable).toBe(true)
  })

  test('a lock of another process is waited for', async () => {
    const database = new SlowDatabase()
    const queue = queueOn(database)
    database.fault = new Busy()
    const command = queue.admit({}, () => database.write('hold'))
    await database.answer()
    database.fault = undefined
    await database.answer()
    expect(await command).toBe('hold')
  })

  test('closing waits for the commit under way and for what is queued', async () => {
    const database = new SlowDatabase()
    const queue = queueOn(database)
    const commands = ['a', 'b', 'c', 'd'].map((name) => queue.admit({}, () => database.write(name)))
    await new Promise((resolve) => setImmediate(resolve))
    const closed = queue.close()
    await database.answer()
    await database.answer()
    await closed
    expect(await Promise.all(commands)).toEqual(['a', 'b', 'c', 'd'])
    expect(await queue.admit({}, () => 'late').catch((error: GatewayError) => error.code)).toBe(
      'store_unavailable',
    )
  })

  test('closing writes what is concluded while it waits, and refuses what would only be admitted', async () => {
    const database = new SlowDatabase()
    const synced = Promise.withResolvers<void>()
    const queue = queueOn(Object.assign(database, { quiet: () => false, sync: () => synced.promise }))
    const first = queue.conclude({}, () => database.write('first'), null)
    await database.answer()
    const closed = queue.close()
    // A sync is under way: whoever waits for it goes on, and may have the next command ready.
    const admitted = queue
      .admit({}, () => database.write('admission'))
      .catch((error: GatewayError) => error.code)
    const second = queue.conclude({}, () => database.write('second'), null)
    synced.resolve()
    await database.answer()
    await closed
    expect(await Promise.all([first, admitted, second])).toEqual(['first', 'store_unavailable', 'second'])
    expect(database.committed).toEqual(['first', 'second'])
  })
})

describe('gathering', () => {
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

  test('commands share a group for as long as each turn of the loop brings more; one alone waits for nobody', async () => {
    const database = new QuickDatabase()
    const queue = new CommitQueue(database, { ...defaultGroupLimits, waitMs: 60_000, decideMs: 60_000 })
    const commands = [queue.admit({}, () => 1)]
    await turn()
    expect(database.groups).toEqual([1])
    for (let n = 0; n < 4; n++) {
      commands.push(
        queue.admit({}, () => 1),
        queue.admit({}, () => 1),
      )
      await turn()
    }
    expect(database.groups).toEqual([1])
    await turn()
    expect(database.groups).toEqual([1, 8])
    await Promise.all(commands)
  })

  test.each([
    ['a group that is full', { max: 3, waitMs: 60_000 }],
    ['the time for it', { max: 64, waitMs: 0 }],
  ] as const)('%p ends it', async (_, limits) => {
    const database = new QuickDatabase()
    const queue = new CommitQueue(database, { ...defaultGroupLimits, decideMs: 60_000, ...limits })
    const commands = [1, 2, 3].map(() => queue.admit({}, () => 1))
    await turn()
    expect(database.groups).not.toEqual([])
    await Promise.all(commands)
  })
})

describe('a commit that the database does not answer', () => {
  afterEach(() => {
    jest.useRealTimers()
  })

  test('refuses admissions after a second and whoever waits after five, and is carried out all the same', async () => {
    jest.useFakeTimers()
    const refused = { code: 'store_unavailable' }
    const database = new FrozenDatabase()
    const queue = queueOn(database)
    const done: string[] = []
    const ended = (at: string) => queue.conclude({}, () => done.push(at), { end: at })
    const first = ended('under way')
    await database.asked
    const [late, next] = [queue.admit({}, () => done.push('late')), ended('waits')]
    expect(queue.writable).toBe(true)
    jest.advanceTimersByTime(1_000)
    expect(queue.writable).toBe(false)
    await expect(late).rejects.toMatchObject(refused)
    await expect(queue.admit({}, () => 'more')).rejects.toMatchObject(refused)
    jest.advanceTimersByTime(5_000)
    await expect(first).rejects.toMatchObject(refused)
    await expect(next).rejects.toMatchObject(refused)
    jest.useRealTimers()
    database.thaw()
    await queue.close()
    expect(done).toEqual(['under way', 'waits'])
  })
})
