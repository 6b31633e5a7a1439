// A conversation is asked with instructions and parameters of its own, lies in a folder or above the others, is found by
// what was said, or is not stored at all; saved prompts come with a slash.

import { describe, expect, test } from 'bun:test'
import { placesOf } from '../../src/console/chat/conversation-list.tsx'
import { settingsIn } from '../../src/console/chat/conversation-settings.tsx'
import { findPrompts, promptNameIn } from '../../src/console/chat/prompts.tsx'
import type { ConversationView, SavedPromptView } from '../../src/http/console/answers.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

test('pinned conversations come first, then folders by name, then the rest, each in its order', () => {
  const conversation = (id: string, folder: string | null, pinned = false) =>
    ({ id, folder, pinned }) as ConversationView
  const all = [
    conversation('1', null),
    conversation('2', 'Work'),
    conversation('3', 'Home', true),
    conversation('4', 'Home'),
    conversation('5', null),
    conversation('6', 'Work'),
  ]
  const places = placesOf(all).map(({ kind, name, conversations }) => [
    kind,
    name,
    ...conversations.map(({ id }) => id),
  ])
  expect(places).toEqual([
    ['pinned', 'Pinned', '3'],
    ['folder', 'Home', '4'],
    ['folder', 'Work', '2', '6'],
    ['rest', '', '1', '5'],
  ])
  expect(placesOf([])).toEqual([])
})

test.each([
  ['/', ''],
  ['/trans', 'trans'],
  ['/my prompt', 'my prompt'],
  ['/usr/bin', null],
  ['/one\ntwo', null],
  [' /trans', null],
  ['and/or', null],
  ['', null],
])('%p asks for prompts named %p', (text, name) => {
  expect(promptNameIn(text)).toBe(name)
})

test('prompts are found by a part of their name, those that begin with it first', () => {
  const prompts = ['To translate', 'Translate', 'Sum up'].map((name) => ({ name }) as SavedPromptView)
  expect(findPrompts(prompts, 'TRANS').map(({ name }) => name)).toEqual(['Translate', 'To translate'])
})

test('an empty field of the settings is left to the model', () => {
  const given = new FormData()
  for (const name of ['instructions', 'temperature', 'top_p', 'max_output_tokens', 'reasoning_effort'])
    given.set(name, '')
  expect(settingsIn(given)).toBeNull()
  given.set('temperature', '0')
  given.set('reasoning_effort', 'low')
  given.set('instructions', ' Be brief. ')
  expect(settingsIn(given)).toEqual({ instructions: 'Be brief.', temperature: 0, reasoning_effort: 'low' })
})

describe.skipIf(browserPath === null)('conversations', () => {
  const console = openedConsole()

  test('keep instructions, lie in folders, are found by their words, or are not stored', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const sent: Record<string, unknown>[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/app/v1/responses')) sent.push(request.postDataJSON())
    })
    const message = page.getByLabel('Message')

    await page.getByRole('button', { name: 'Prompts' }).click()
    await page.getByRole('button', { name: 'New prompt' }).click()
    await page.getByLabel('Name').fill('Rivers')
    await page.getByLabel('Text').fill('Which is the longest river of Germany?')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: 'Use Rivers' }).waitFor()
    await page.keyboard.press('Escape')

    await page.getByRole('button', { name: 'Instructions' }).click()
    await page.getByLabel('System prompt').fill('Answer in one word.')
    await page.getByLabel('Temperature').fill('0.3')
    const faults = [...(await accessibilityFaults(page))]
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: 'Instructions: 2' }).waitFor()

    await message.pressSequentially('/riv')
    await page.getByRole('option', { name: /Rivers/ }).waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await page.keyboard.press('Enter')
    expect(await message.inputValue()).toBe('Which is the longest river of Germany?')
    await page.keyboard.press('Enter')
    await page.getByTestId('cost').waitFor()
    await page.waitForURL(/\/chat\/conv_/)
    await page.reload()
    await page.getByRole('button', { name: 'Instructions: 2' }).waitFor()
    await message.fill('And of Austria?')
    await page.keyboard.press('Enter')
    await page.getByTestId('cost').nth(1).waitFor()
    const asked = { instructions: 'Answer in one word.', temperature: 0.3, store: true }
    expect(sent).toMatchObject([asked, asked])

    await page.getByRole('button', { name: 'Rename' }).click()
    await page.getByLabel('Title').fill('About water')
    await page.getByLabel('Folder').fill('Geography')
    await page.getByRole('button', { name: 'Save' }).click()
    const list = page.getByRole('navigation', { name: 'Conversations' })
    const folder = list.locator('details').filter({ hasText: 'Geography' })
    await folder.getByRole('link', { name: /About water/ }).waitFor()
    await page.getByRole('button', { name: 'Rename' }).click()
    await page.getByLabel('Pin it').check()
    await page.getByRole('button', { name: 'Save' }).click()
    await list.locator('details').filter({ hasText: 'Pinned' }).getByText('About water').waitFor()

    await page.getByRole('searchbox', { name: 'Search conversations' }).fill('austria longest')
    await page.getByText('Nobody said it.').waitFor()
    await page.getByRole('searchbox', { name: 'Search conversations' }).fill('longest GERMANY')
    await page
      .getByRole('region', { name: 'In what was said' })
      .getByRole('link', { name: /About water/ })
      .waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await page.getByRole('searchbox', { name: 'Search conversations' }).fill('')

    await page.getByRole('link', { name: 'New chat' }).click()
    await page.getByRole('button', { name: 'Temporary' }).click()
    await message.fill('A secret.')
    await page.keyboard.press('Enter')
    await page.getByTestId('cost').waitFor()
    await message.fill('Which?')
    await page.keyboard.press('Enter')
    await page.getByTestId('cost').nth(1).waitFor()
    expect(sent.at(-1)).toMatchObject({ store: false, input: [{}, { role: 'assistant' }, {}] })
    const listed = await context.request.get('/console/api/conversations')
    expect(((await listed.json()) as { data: unknown[] }).data).toHaveLength(1)
    await page.reload()
    await page.getByText('Ask something.').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await context.close()
  }, 60_000)
})
