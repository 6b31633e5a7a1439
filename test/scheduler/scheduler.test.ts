// Long work is done in steps, and between two of them others go on.

import { describe, expect, spyOn, test } from 'bun:test'
import { phaseBoundary, stepsOf, Scheduler } from '../../src/scheduler/scheduler.ts'

/** Keeps the thread busy. */
function work(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

test('calls that go on in one iteration of the loop do each phase one after another', async () => {
  const scheduler = new Scheduler()
  const done: string[] = []
  const call = async (name: string) => {
    await scheduler.endOfIteration()
    done.push(`${name} reads`)
    await phaseBoundary
    done.push(`${name} books`)
  }
  const calls = ['a', 'b'].map(call)
  setImmediate(() => {
    done.push('an iteration later')
    calls.push(call('c'))
  })
  while (calls.length < 3) await new Promise((resolve) => setImmediate(resolve))
  await Promise.all(calls)
  expect(done).toEqual([
    'a reads',
    'b reads',
    'a books',
    'b books',
    'an iteration later',
    'c reads',
    'c books',
  ])
})

describe('work in steps', () => {
  test('is done at once while the loop has time, and gives what it makes', () => {
    expect(new Scheduler().run(() => 7)).toBe(7)
  })

  test('waits for another iteration of the loop when this one is used up', async () => {
    const scheduler = new Scheduler()
    const done: string[] = []
    setImmediate(() => done.push('the loop has turned'))
    void scheduler.run(() => work(20))
    const second = scheduler.run(() => done.push('second'))
    expect(second).toBeInstanceOf(Promise)
    await second
    expect(done).toEqual(['the loop has turned', 'second'])
  })

  test('counts what runs between steps: a thousand requests that arrive at once have more to do than those', async () => {
    const scheduler = new Scheduler()
    expect(scheduler.run(() => 'first')).toBe('first')
    work(20)
    const second = scheduler.run(() => 'second')
    expect(second).toBeInstanceOf(Promise)
    expect(await second).toBe('second')
  })

  test('comes to a step although the system has stopped the process at the beginning of its iteration', async () => {
    const scheduler = new Scheduler()
    void scheduler.run(() => work(20))
    await scheduler.run(() => work(20))
    const third = scheduler.run(() => 'third')
    const real = performance.now.bind(performance)
    let asked = 0
    // The clock is read when the iteration begins; it is read again ten milliseconds later.
    const clock = spyOn(performance, 'now').mockImplementation(() => real() + (asked++ === 0 ? 0 : 10))
    await new Promise((resolve) => setImmediate(resolve))
    clock.mockRestore()
    expect(asked).toBeGreaterThan(1)
    expect(await third).toBe('third')
  })

  test('keeps nothing of the steps that it has taken, although it is never without one', async () => {
    const scheduler = new Scheduler()
    const alive: WeakRef<object>[] = []
    const step = () => {
      const bytes = new Uint8Array(8)
      alive.push(new WeakRef(bytes))
      return scheduler.run(() => bytes.length)
    }
    void scheduler.run(() => work(20))
    const first = Array.from({ length: 1_000 }, step)
    const last = Array.from({ length: 20 }, () => scheduler.run(() => work(10)))
    await Promise.all(first)
    await new Promise((resolve) => setImmediate(resolve))
    Bun.gc(true)
    // The collector may still find a few on the stack.
    expect(alive.filter((each) => each.deref() !== undefined).length).toBeLessThan(100)
    expect(await Promise.race([Promise.all(last), 'steps are waiting'])).toBe('steps are waiting')
    await Promise.all(last)
  })

  test('goes through what pauses by itself, some of it in each iteration', async () => {
    const scheduler = new Scheduler()
    function* steps(pauses: number): Generator<void, string, void> {
      for (let at = 0; at < pauses; at++) {
        work(1)
        yield
      }
      return 'done'
    }
    expect(await scheduler.runSteps(steps(0))).toBe('done')
    let turned = 0
    const count = setInterval(() => (turned += 1), 0)
    const made = scheduler.runSteps(steps(60))
    expect(made).toBeInstanceOf(Promise)
    expect(await made).toBe('done')
    clearInterval(count)
    expect(turned).toBeGreaterThanOrEqual(4)
  })

  test('lets connections go on between any two long steps', async () => {
    const scheduler = new Scheduler()
    const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('alive') })
    let answered = 0
    const state = { over: false }
    const steps = Promise.all(Array.from({ length: 40 }, () => scheduler.run(() => work(10)))).then(
      () => (state.over = true),
    )
    while (!state.over) {
      await (await fetch(`http://127.0.0.1:${server.port}/`)).text()
      answered += 1
    }
    await steps
    await server.stop(true)
    // Done in one go, the steps would have let one answer through.
    expect(answered).toBeGreaterThan(5)
  })

  test('shares one iteration with what it sets going', async () => {
    const scheduler = new Scheduler()
    let looked = 0
    const look = setInterval(() => (looked += 1), 0)
    void scheduler.run(() => work(20))
    const first = scheduler.run(() => work(20)) as Promise<void>
    // Begun before the loop has looked at anything, it would hold the loop for twice as long.
    const second = first.then(() => {
      const before = looked
      return (scheduler.run(() => looked) as Promise<number>).then((after) => after - before)
    })
    expect(await second).toBeGreaterThan(0)
    clearInterval(look)
  })

  test('does one step in an iteration that has no time for it, however many kinds have waited too long', async () => {
    const scheduler = new Scheduler()
    const done: { priority: string; looked: number }[] = []
    let looked = 0
    const look = setInterval(() => (looked += 1), 0)
    void scheduler.run(() => work(20))
    const waiting = (['urgent', 'started', 'normal', 'new'] as const).map((priority) =>
      scheduler.run(() => {
        work(20)
        done.push({ priority, looked })
      }, priority),
    )
    work(60)
    await Promise.all(waiting)
    clearInterval(look)
    expect(done).toHaveLength(4)
    expect(new Set(done.map((step) => step.looked)).size).toBe(4)
  })

  test('begins what is new last, and what is urgent first', async () => {
    const scheduler = new Scheduler()
    const order: string[] = []
    void scheduler.run(() => work(20))
    await Promise.all(
      (['new', 'normal', 'started', 'urgent'] as const).map((priority) =>
        scheduler.run(() => order.push(priority), priority),
      ),
    )
    expect(order).toEqual(['urgent', 'started', 'normal', 'new'])
  })

  test('comes to what is new although more urgent work never ends', async () => {
    const scheduler = new Scheduler()
    const state = { over: false }
    const busy = async () => {
      while (!state.over) await scheduler.run(() => work(10), 'started')
    }
    const lanes = [busy(), busy(), busy()]
    expect(await scheduler.run(() => 'begun at last', 'new')).toBe('begun at last')
    state.over = true
    await Promise.all(lanes)
  })

  test('rejects with what it throws, and goes on', async () => {
    const scheduler = new Scheduler()
    void scheduler.run(() => work(20))
    const failing = scheduler.run(() => {
      throw new Error('no')
    })
    const next = scheduler.run(() => 'next')
    await expect(Promise.resolve(failing)).rejects.toThrow('no')
    expect(await next).toBe('next')
  })
})

test('bytes are cut into steps that hold all of them', () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, at) => at % 251)
  const steps = [...stepsOf(bytes)]
  expect(steps.length).toBeGreaterThan(5)
  expect(Buffer.concat(steps)).toEqual(Buffer.from(bytes))
  expect([...stepsOf(bytes.subarray(0, 10))]).toEqual([bytes.subarray(0, 10)])
})
