// A conversation in the chat: streamed, paid, stopped, edited, found again, exported and deleted.

import { describe, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { titleOf } from '../../src/console/chat/open-thread.ts'
import { eventually, restingCredits } from '../support/call-gateway.ts'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { accessibilityFaults, clean, seen, say } from './visitor.ts'

async function pick(page: Page, model: string): Promise<void> {
  await page.locator('button[aria-haspopup=dialog]').click()
  await page.getByRole('dialog').getByLabel('Search models').fill(model)
  await page.getByRole('dialog').getByRole('option', { name: model }).click()
}

test('a conversation is named for its question, by whole characters, or for its files', () => {
  const question = (text: string, ...names: string[]) => ({
    text,
    attachments: names.map((name) => ({ name, type: 'image/png', data: '' })),
  })
  expect(titleOf(question('# Why  is\nthe sky blue?', 'sky.png'))).toBe('Why is the sky blue?')
  expect(titleOf(question(`${'x'.repeat(59)}😀 and more`))).toBe(`${'x'.repeat(59)}😀…`)
  expect(titleOf(question('', 'gauge.png', 'river.png'))).toBe('gauge.png, river.png')
  expect(titleOf(question('***'))).toBe('…')
})

describe.skipIf(browserPath === null)('the chat', () => {
  const console = openedConsole(() => ({ config: 'search: { backend: sim, price_per_call: "0.005" }' }))

  test('streams, says what an answer cost and who paid, and is stopped, edited, found again and deleted', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await pick(page, 'sim/echo')
    await say(
      page,
      '# Title\n\nSee [the gauge][1].\n\n1. one\n\n```js\nconst x = 1\n```\n\n3. three\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n[1]: https://gauge.example/rhine "The Rhine"',
    )
    const answer = page.locator('article .prose').first()
    await answer.getByRole('heading', { name: 'Title' }).waitFor()
    await answer.getByRole('cell', { name: '2' }).waitFor()
    // Where a link leads may be said at the end of the answer.
    const link = answer.getByRole('link', { name: 'the gauge' })
    expect(await link.getAttribute('href')).toBe('https://gauge.example/rhine')
    const aligned = await answer
      .getByRole('cell', { name: '2' })
      .evaluate((cell) => getComputedStyle(cell).textAlign)
    // A list that code interrupts goes on with its own number.
    expect([aligned, await answer.locator('ol').nth(1).getAttribute('start')]).toEqual(['right', '3'])
    const cost = page.getByTestId('cost').first()
    await cost.getByText('Daily').waitFor()
    expect(await cost.innerText()).toContain('$0.00')
    await page.waitForURL(/\/chat\/conv_/)
    const faults = [...(await accessibilityFaults(page))]

    await pick(page, 'sim/hang')
    await say(page, 'Say nothing.')
    await page.getByText('The answer is being written.').waitFor({ state: 'attached' })
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped.', { exact: true }).waitFor()
    expect((await restingCredits(console.weir)).held).toBe('0')

    await pick(page, 'sim/echo')
    await say(page, 'Where were we?')
    await page.getByTestId('cost').nth(1).waitFor()
    await page.reload()
    await page.getByText('Where were we?').first().waitFor()

    const conversation = async (): Promise<readonly string[]> => {
      const path = `/console/api/conversations/${page.url().split('/').at(-1)}`
      const { turns } = (await (await console.answerTo(context, path)).json()) as {
        turns: { response: { id: string } }[]
      }
      return turns.map(({ response }) => response.id)
    }
    const replaced = await conversation()
    expect(replaced).toHaveLength(2)
    await page.getByRole('button', { name: 'Edit' }).first().click()
    await page.getByLabel('Message').fill('Something else.')
    await page.getByRole('button', { name: 'Ask again' }).click()
    await page.locator('article .prose').getByText('Something else.').waitFor()
    expect(await page.locator('article').count()).toBe(1)
    await page.getByTestId('cost').first().waitFor()
    const states = await eventually(
      () =>
        Promise.all(
          replaced.map(async (id) => (await console.answerTo(context, `/app/v1/responses/${id}`)).status),
        ),
      (all) => all.every((status) => status === 404),
    )
    expect(states).toEqual([404, 404])
    expect(await conversation()).toHaveLength(1)

    await page.getByRole('button', { name: 'Delete Title' }).first().focus()
    await page.keyboard.press('Enter')
    const asking = page.getByRole('dialog', { name: 'Delete the conversation' })
    await asking.getByText('Its questions and answers are deleted.').waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await page.keyboard.press('Escape')
    await asking.waitFor({ state: 'detached' })
    await page.getByTestId('cost').first().waitFor()
    await page.getByRole('button', { name: 'Delete Title' }).first().click()
    await asking.getByRole('button', { name: 'Delete for good' }).click()
    await page.getByText('Ask something.').waitFor()
    await asking.waitFor({ state: 'detached' })
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)

  test('on a phone, shows the conversation that is picked from the list instead of the list', async () => {
    const visit = await console.visit({ width: 360 })
    const { page } = visit
    await console.enter(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const list = page.locator('[popover]').filter({ has: page.getByLabel('Search conversations') })
    for (const text of ['The Rhine.', 'The Elbe.']) {
      await say(page, text)
      await page.getByTestId('cost').waitFor()
      await page.getByRole('button', { name: 'Conversations' }).click()
      await list.getByRole('link', { name: 'New chat' }).click()
      await page.getByText('Ask something.').waitFor()
      expect(await list.isVisible()).toBe(false)
    }
    await page.getByRole('button', { name: 'Conversations' }).click()
    await list.getByRole('link', { name: /The Rhine/ }).click()
    await page.locator('article').getByText('The Rhine.').first().waitFor()
    expect(await list.isVisible()).toBe(false)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('on a phone, a wide table keeps its words whole and is scrolled by the keyboard', async () => {
    const visit = await console.visit({ width: 360 })
    const { page } = visit
    await console.enter(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const row = (word: string) => `| ${Array.from({ length: 9 }, (_, n) => `${word}${n}`).join(' | ')} |`
    await say(page, [row('column'), `|${'---|'.repeat(9)}`, row('value')].join('\n'))
    await page.getByTestId('cost').waitFor()
    const table = page.locator('.prose table')
    const heights = await table
      .getByRole('columnheader')
      .evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().height))
    expect(Math.max(...heights)).toBeLessThan(40)
    await table.focus()
    await page.keyboard.press('ArrowRight')
    await page.waitForFunction(() => document.querySelector('.prose table')!.scrollLeft > 0)
    expect(await accessibilityFaults(page)).toEqual([])
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('typesets formulas, and nothing in them links, loads or styles', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const lines = [
      String.raw`It is \(x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}\), so $a_1 \ne 0$.`,
      String.raw`$$\begin{aligned} a &= b \\ &= \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} \end{aligned}$$`,
      String.raw`$\text{<img src=x onerror=ran()>} \color{red} \boxed{x}$`,
      String.raw`$\href{javascript:ran()}{x}$ and $\frac{$`,
    ]
    await say(page, lines.join('\n\n'))
    await page.getByTestId('cost').waitFor()
    const inside = page.locator('article .prose')
    await inside.locator('math').nth(3).waitFor()
    expect(await inside.locator('math').count()).toBe(4)
    expect(await inside.locator('mfrac').count()).toBe(1)
    expect(await inside.locator('math[display=block] mtable').count()).toBe(2)
    // What is no LaTeX is shown as it was written.
    const shown = await inside.locator('code').allInnerTexts()
    expect(shown).toEqual([String.raw`$\href{javascript:ran()}{x}$`, String.raw`$\frac{$`])
    const forbidden = '[style], [href], [src], [onerror], img'
    expect(await inside.locator(forbidden).count()).toBe(0)
    expect(await accessibilityFaults(page)).toEqual([])
    expect(seen(visit)).toEqual(clean)
    if (process.env['SHOT']) await page.screenshot({ path: process.env['SHOT'] })
    await visit.leave()
  }, 30_000)

  test('searches the web where it is told to, and shows the search, its sources and its price', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/chat')
    await pick(page, 'sim/tools')
    await page.getByRole('button', { name: 'Search the web' }).click()
    await say(page, 'How high is Mount Everest?')
    const source = page.getByRole('region', { name: 'Sources' }).getByRole('link').first()
    await source.waitFor()
    expect(await source.getAttribute('rel')).toBe('noreferrer nofollow')
    await page.locator('summary').filter({ hasText: 'Web search How high is Mount Everest?' }).waitFor()
    await page.getByTestId('cost').waitFor()
    await page.waitForURL(/\/chat\/conv_/)
    await page.reload()
    await source.waitFor()
    const faults = await accessibilityFaults(page)
    await page.getByTestId('cost').getByRole('link').click()
    await page.getByRole('row').filter({ hasText: 'call:web_search' }).waitFor()
    await page.getByRole('row').filter({ hasText: 'round 2' }).first().waitFor()
    await page.getByRole('button', { name: 'Check it' }).click()
    await page.getByText('It adds up').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 30_000)

  test('says that a conversation is not stored any more', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    await say(page, 'Long ago.')
    await page.getByTestId('cost').waitFor()
    await page.waitForURL(/\/chat\/conv_/)
    const database = new Database(join(console.weir.dataDir, 'weir.db'))
    database.run('UPDATE response SET expires_at = 1')
    database.close()
    await page.reload()
    await page.getByText('What was said here is not stored any more.').waitFor()
    await say(page, 'And now?')
    await page.getByTestId('cost').waitFor()
    await page.reload()
    await page.locator('article').getByText('And now?').first().waitFor()
    expect(await page.getByText('not stored any more').count()).toBe(0)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('takes text and images along, and is exported as markdown', async () => {
    const visit = await console.visit({ width: 390 })
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/chat')
    await pick(page, 'sim/echo')
    const pixel =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    await page.locator('input[type=file]').setInputFiles([
      { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('the words of the notes') },
      { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(pixel, 'base64') },
    ])
    await say(page, 'What is in there?')
    await page.getByRole('img', { name: 'dot.png' }).waitFor()
    await page.locator('article .prose').getByText('the words of the notes').waitFor()
    await page.getByTestId('cost').waitFor()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export' }).click(),
    ])
    const text = await readFile((await file.path())!, 'utf8')
    for (const part of [
      'What is in there?',
      '*attached: notes.md*',
      '## sim/echo',
      'the words of the notes',
      'USD*',
    ])
      expect(text).toContain(part)
    await page.waitForURL(/\/chat\/conv_/)
    await page.reload()
    await page.locator('article').getByText('What is in there?', { exact: true }).waitFor()
    expect(await page.locator('article').getByRole('listitem').allInnerTexts()).toEqual(['notes.md', ''])
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)
})
