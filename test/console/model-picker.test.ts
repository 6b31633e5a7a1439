// The model of a chat is picked by typing and arrow keys, and the composer has the focus before and after.

import { describe, expect, test } from 'bun:test'
import { groupModels } from '../../src/console/chat/model-picker.tsx'
import type { ModelView } from '../../src/http/console/answers.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

function model(id: string, app: ModelView['callable']['app'] = null, kind = 'chat'): ModelView {
  return { id, name: id.toUpperCase(), kind, callable: { app } } as unknown as ModelView
}

const all = [
  model('a/opus', 'no_provider'),
  model('b/haiku'),
  model('c/opus'),
  model('d/opus', 'plan_required'),
  model('e/embed', 'not_chat', 'embedding'),
]

test.each([
  ['', [], [], [['rest', 'b/haiku', 'c/opus', 'd/opus', 'a/opus']]],
  [
    '',
    ['c/opus', 'gone/model'],
    ['c/opus', 'b/haiku'],
    [
      ['favourites', 'c/opus'],
      ['recent', 'b/haiku'],
      ['rest', 'd/opus', 'a/opus'],
    ],
  ],
  [
    'OPUS',
    ['a/opus'],
    ['b/haiku'],
    [
      ['favourites', 'a/opus'],
      ['rest', 'c/opus', 'd/opus'],
    ],
  ],
  ['opus c/', [], [], [['rest', 'c/opus']]],
  ['embed', ['e/embed'], [], []],
] as const)('%p with favourites %p and recent %p is %p', (typed, favourites, recent, groups) => {
  const found = groupModels(all, typed, favourites, recent)
  expect(found.map(({ heading, models }) => [heading, ...models.map(({ id }) => id)])).toEqual(
    groups as never,
  )
})

describe.skipIf(browserPath === null)('the picker', () => {
  const console = openedConsole()

  test('takes typing, ↑↓ and Enter, keeps favourites and recent models, and returns to the composer', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    const message = page.getByLabel('Message')
    await message.waitFor()
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label'))
    expect(await focused()).toBe('Message')

    const button = page.locator('button[aria-haspopup=dialog]')
    await button.press('Enter')
    const box = page.getByRole('combobox', { name: 'Search models' })
    await box.waitFor()
    const active = async () => {
      const id = await box.getAttribute('aria-activedescendant')
      return page.locator(`[id="${id}"] .font-mono`).innerText()
    }
    await page.keyboard.type('sim echo')
    expect(await active()).toBe('sim/echo')
    const before = await box.inputValue()
    await box.fill('sim/')
    const first = await active()
    await page.keyboard.press('ArrowDown')
    const second = await active()
    expect(second).not.toBe(first)
    await page.keyboard.press('ArrowUp')
    expect([await active(), before]).toEqual([first, 'sim echo'])
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowDown')
    expect(await active()).toBe(first)
    await page.keyboard.press('ArrowDown')
    await page.getByRole('button', { name: `Make a favourite: ${second}` }).press('Enter')
    await box.focus()
    const faults = await accessibilityFaults(page)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect([await button.innerText(), await focused()]).toEqual([`${second}\n▾`, 'Message'])

    await button.click()
    await box.fill('sim/hang')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.reload()
    await button.click()
    const inGroup = (name: string) =>
      page.getByRole('group', { name }).getByRole('option').locator('.font-mono')
    expect(await inGroup('Favourites').allInnerTexts()).toEqual([second])
    expect(await inGroup('Used last').allInnerTexts()).toEqual(['sim/hang'])
    expect(await active()).toBe('sim/hang')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await context.close()
  }, 30_000)
})
