// Two models get one question: two answers, each charged once and shown with its cost, each a conversation of its own.

import { describe, expect, test } from 'bun:test'
import { comparedModels } from '../../src/console/chat/model-picker.tsx'
import type { ModelView } from '../../src/http/console/answers.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

test.each([
  [
    ['b', 'c'],
    ['b', 'c'],
  ],
  [
    ['b', 'b'],
    ['b', 'b'],
  ],
  [['b'], ['b', 'a']],
  [
    ['gone', 'c'],
    ['a', 'c'],
  ],
  [
    ['b', 'closed'],
    ['b', 'a'],
  ],
])('of %p are compared %p', (ids, models) => {
  const model = (id: string, app: string | null = null) =>
    ({ id, kind: 'chat', callable: { app } }) as ModelView
  const { a, b } = comparedModels([model('a'), model('b'), model('c'), model('closed', 'no_provider')], ids)
  expect([a?.id, b?.id]).toEqual(models)
})

describe.skipIf(browserPath === null)('two models side by side', () => {
  const console = openedConsole()

  test('answer one question, each charged by itself, and are there again after a reload', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.evaluate(() => localStorage.setItem('weir.compared-models', '["sim/echo","sim/long"]'))
    await page.goto('/console/chat')
    await page.getByRole('link', { name: 'Compare' }).click()
    const [first, second] = [
      page.getByRole('region', { name: 'First model' }),
      page.getByRole('region', { name: 'Second model' }),
    ]
    await page.getByLabel('Message').fill('The Rhine.')
    await page.keyboard.press('Enter')
    await first.getByTestId('cost').waitFor()
    await second.getByTestId('cost').waitFor()
    await page.waitForURL(/a=conv_\w+&b=conv_\w+|b=conv_\w+&a=conv_\w+/)
    await first.getByText('The Rhine.').first().waitFor()

    await second.getByRole('button', { name: /sim\/long/ }).click()
    await page.getByRole('combobox', { name: 'Search models' }).fill('sim/tools')
    await page.keyboard.press('Enter')
    await page.getByLabel('Message').fill('And the Elbe?')
    await page.keyboard.press('Enter')
    await first.getByTestId('cost').nth(1).waitFor()
    await second.getByTestId('cost').nth(1).waitFor()
    const faults = [...(await accessibilityFaults(page))]
    await page.reload()
    await first.getByTestId('cost').nth(1).waitFor()
    await second.getByTestId('cost').nth(1).waitFor()
    await page.setViewportSize({ width: 360, height: 860 })
    faults.push(...(await accessibilityFaults(page)))
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0)

    const calls = (await (await context.request.get('/console/api/requests?limit=10')).json()) as {
      data: { model: string; outcome: string }[]
    }
    expect(calls.data.map(({ model }) => model).toSorted()).toEqual([
      'sim/echo',
      'sim/echo',
      'sim/long',
      'sim/tools',
    ])
    const talks = (await (await context.request.get('/console/api/conversations')).json()) as {
      data: { title: string }[]
    }
    expect(talks.data.map(({ title }) => title).toSorted()).toEqual([
      'The Rhine. (echo)',
      'The Rhine. (long)',
    ])
    await second.getByRole('link', { name: 'Go on with this one' }).click()
    await page.getByRole('heading', { level: 1, name: 'The Rhine. (long)' }).waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await context.close()
  }, 60_000)
})
