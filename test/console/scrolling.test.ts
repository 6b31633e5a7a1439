// The list of all models scrolls at sixty frames a second: by the browser's own trace, no frame's work takes longer than
// a frame has. How much slower the machine is meanwhile than at its best is taken out: others work on it, too.

import { describe, expect, test } from 'bun:test'
import type { CDPSession, Page } from 'playwright-core'
import { startControl } from '../support/slowness.ts'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

const frameMs = 1_000 / 60

interface TraceEvent {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  /** Of the thread's own time, in microseconds: what the neighbours on the machine do is not in it. */
  readonly tdur?: number
  readonly args: {
    readonly name?: string
    readonly data?: { readonly frames?: readonly { processId: number }[] }
  }
}

/** What a page's renderer did while `work` went on. */
async function traced(page: Page, work: () => Promise<void>): Promise<readonly TraceEvent[]> {
  const session: CDPSession = await page.context().browser()!.newBrowserCDPSession()
  const events: TraceEvent[] = []
  session.on('Tracing.dataCollected', ({ value }) => events.push(...(value as unknown as TraceEvent[])))
  const complete = new Promise<void>((resolve) => session.once('Tracing.tracingComplete', () => resolve()))
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: {
      includedCategories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
    },
  })
  await work()
  await session.send('Tracing.end')
  await complete
  return events
}

describe.skipIf(browserPath === null)('the list of models', () => {
  const console = openedConsole()

  test('scrolls at its beginning and at its end without a frame that is late by its own work', async () => {
    const control = startControl()
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/models')
    const list = page.getByRole('rowgroup', { name: 'Models, with the arrow keys' })
    await list.getByRole('row').first().waitFor()
    expect(await list.evaluate((box) => box.scrollHeight)).toBeGreaterThan(1_200 * 40)
    await list.hover()
    /** The longest task of a stretch of 30 steps, in milliseconds of a machine at its best. */
    const longest = async (step: number): Promise<number> => {
      const before = await list.evaluate((box) => box.scrollTop)
      await control.slowness()
      const events = await traced(page, async () => {
        for (let at = 0; at < 30; at += 1) await page.mouse.wheel(0, step)
        await page.getByRole('row').last().waitFor()
      })
      const after = await list.evaluate((box) => box.scrollTop)
      expect((after - before) * Math.sign(step)).toBeGreaterThan(10_000)
      const mains = new Set(
        events
          .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
          .map(({ pid, tid }) => `${pid} ${tid}`),
      )
      const tasks = events
        .filter(
          ({ name, ph, pid, tid }) => name.endsWith('RunTask') && ph === 'X' && mains.has(`${pid} ${tid}`),
        )
        .map(({ tdur = 0 }) => tdur / 1_000)
      expect(tasks.length).toBeGreaterThan(100)
      return Math.max(...tasks) / (await control.slowness())
    }
    // At either end. What else the machine does falls into the way there or the way back, the list's own work into
    // both: where the way there has no late frame, there is none to be blamed on others.
    for (const step of [400, -400]) {
      const there = await longest(step)
      if (there > frameMs) expect(await longest(-step)).toBeLessThanOrEqual(frameMs)
      await list.evaluate((box) => (box.scrollTop = box.scrollHeight))
      await page.getByRole('row').last().waitFor()
    }
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
    control.stop()
  }, 60_000)
})
