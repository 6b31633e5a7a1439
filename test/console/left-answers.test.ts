// Answers in the chat that the user stops or leaves: what was paid for is there afterwards.

import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { keptTurn, requestFor } from '../../src/console/chat/thread/thread.ts'
import { openedConsole } from './opened.ts'
import { browserPath, clean, seen } from './visitor.ts'

test('a cancelled response is a stopped answer, which the next question continues', () => {
  const output = [{ type: 'message', content: [{ type: 'output_text', text: 'slow sl' }] }]
  const response = { id: 'resp_1', model: 'sim/slow', status: 'cancelled', output, error: null }
  const stopped = keptTurn(response, [{ type: 'message', role: 'user', content: 'Go on.' }])
  expect(stopped.answer).toMatchObject({ state: 'stopped', text: 'slow sl', stored: true })
  expect(requestFor([stopped, { ...stopped, key: 'next' }]).previous).toBe('resp_1')
})

describe.skipIf(browserPath === null)('an answer in the chat', () => {
  const console = openedConsole()

  /** A page of the chat on which a slow answer has begun. */
  async function asked(frames = 20) {
    const visit = await console.visit()
    const { page, context } = visit
    await context.route('**/app/v1/responses', async (route) => {
      const body = { ...(route.request().postDataJSON() as object), sim: { delay_ms: 50, frames } }
      await route.continue({ postData: JSON.stringify(body) })
    })
    await console.signIn(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/slow'))
    await page.goto('/console/chat')
    await page.getByRole('button', { name: 'sim/slow' }).waitFor()
    await page.getByLabel('Message').fill('Go on.')
    await page.keyboard.press('Enter')
    await page.locator('article .prose').getByText('slow slow').waitFor()
    await page.waitForURL(/\/chat\/conv_/)
    return visit
  }

  const textOf = (page: Page) => page.locator('article .prose').innerText()

  test('that is stopped is there after a reload, as stopped, with its cost', async () => {
    const visit = await asked(400)
    const { page, context } = visit
    await page.getByRole('button', { name: 'Stop' }).click()
    const saved = await page.waitForResponse((response) => response.request().method() === 'PATCH')
    expect(saved.status()).toBe(200)
    const text = await textOf(page)
    await page.reload()
    await page.getByText('Stopped.', { exact: true }).waitFor()
    await page.getByTestId('cost').getByText('Daily').waitFor()
    expect(await textOf(page)).toStartWith(text)
    expect(seen(visit)).toEqual(clean)
    await context.close()
  }, 30_000)

  test('goes on while the user looks at another page of the console', async () => {
    const visit = await asked(40)
    const { page, context } = visit
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.waitForURL(/\/chat\/conv_/)
    await page.getByTestId('cost').waitFor()
    expect((await textOf(page)).split(' ')).toHaveLength(40)
    await page.reload()
    await page.getByTestId('cost').waitFor()
    expect((await textOf(page)).split(' ')).toHaveLength(40)
    expect(seen(visit)).toEqual(clean)
    await context.close()
  }, 30_000)

  test('during which the page is reloaded is there as far as it was delivered', async () => {
    const visit = await asked(400)
    const { page, context } = visit
    await page.reload()
    await page.getByText('Stopped.', { exact: true }).waitFor()
    await page.getByTestId('cost').getByText('Daily').waitFor()
    expect(await textOf(page)).toStartWith('slow slow')
    expect(await page.evaluate(() => Object.keys(localStorage).filter((key) => /unsaved/.test(key)))).toEqual(
      [],
    )
    await context.close()
  }, 30_000)

  test('takes no place of turns that could not be loaded', async () => {
    const { page, context } = await asked(4)
    await page.getByTestId('cost').waitFor()
    const path = '**/console/api/conversations/conv_*'
    await context.route(path, (route) => route.abort())
    await page.reload()
    const message = page.getByLabel('Message')
    await message.fill('And now?')
    await page.keyboard.press('Enter')
    await page.locator('article').getByText('The gateway does not answer').waitFor()
    await context.unroute(path)
    await message.fill('Once more.')
    await page.keyboard.press('Enter')
    await page.locator('article .prose').nth(1).getByText('slow slow slow slow').waitFor()
    expect(await page.getByText('Go on.', { exact: true }).last().isVisible()).toBe(true)
    await context.close()
  }, 30_000)

  test('of a conversation that is deleted meanwhile does not bring it back', async () => {
    const visit = await asked(400)
    const { page, context } = visit
    const [id] = /conv_\w+/.exec(page.url())!
    const noted = page.waitForResponse((response) => response.request().method() === 'PATCH')
    await page.getByRole('button', { name: 'Delete Go on.' }).first().click()
    const forgotten = page.waitForResponse(
      (response) => response.request().method() === 'DELETE' && /responses/.test(response.url()),
    )
    await page.getByRole('button', { name: 'Delete for good' }).click()
    expect([(await noted).status(), (await forgotten).status()]).toEqual([404, 200])
    await page.getByText('Ask something.').waitFor()
    const found = await page.request.get(`${console.origin}/console/api/conversations/${id}`)
    expect(found.status()).toBe(404)
    await context.close()
  }, 30_000)
})
