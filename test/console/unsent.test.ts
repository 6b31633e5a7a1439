// What is typed into the chat and not sent: it stays in its place, whatever else is looked at.

import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('what was not sent', () => {
  const console = openedConsole()

  async function chatting() {
    const visit = await console.visit()
    await console.enter(visit.page)
    await visit.page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await visit.page.goto('/console/chat')
    return visit
  }

  async function ask(page: Page, text: string, answers: number): Promise<void> {
    await page.getByLabel('Message').fill(text)
    await page.keyboard.press('Enter')
    await page.getByTestId('cost').nth(answers).waitFor()
  }

  test('is an edited question, which replaces nothing in another conversation', async () => {
    const visit = await chatting()
    const { page } = visit
    await ask(page, 'The level of the Rhine?', 0)
    await ask(page, 'And of the Elbe?', 1)
    await page.getByRole('link', { name: 'New chat' }).click()
    await page.getByText('Ask something.').waitFor()
    await ask(page, 'A poem.', 0)
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByRole('button', { name: 'Ask again' }).waitFor()
    await page.getByRole('link', { name: /The level/ }).click()
    await page.locator('article').nth(1).waitFor()
    expect(await page.getByRole('button', { name: 'Ask again' }).count()).toBe(0)
    await ask(page, 'And of the Oder?', 2)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('is there again after another page, and after an earlier question was edited', async () => {
    const visit = await chatting()
    const { page } = visit
    await ask(page, 'One.', 0)
    const box = page.getByLabel('Message')
    await box.fill('A long question')
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByRole('button', { name: 'Cancel' }).click()
    expect(await box.inputValue()).toBe('A long question')
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await page.goBack()
    expect(await box.inputValue()).toBe('A long question')
    await box.press('Enter')
    await page.getByTestId('cost').nth(1).waitFor()
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await page.goBack()
    expect(await box.inputValue()).toBe('')
    await box.fill('For nobody else')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('E-mail').waitFor()
    await page.getByRole('link', { name: 'Create an account' }).click()
    await page.getByLabel('E-mail').fill('asha@example.org')
    await page.getByLabel('Password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Create the account' }).click()
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    expect(await box.inputValue()).toBe('')
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)
})
