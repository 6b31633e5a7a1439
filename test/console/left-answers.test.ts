// Answers in the chat that the user stops or leaves: what was paid for is there afterwards.

import { describe, expect, spyOn, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { conversationsNow } from '../../src/console/api/call.ts'
import { keptTurn, requestFor } from '../../src/console/chat/thread.ts'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

test('a cancelled response is a stopped answer, which the next question continues', () => {
  const output = [{ type: 'message', content: [{ type: 'output_text', text: 'slow sl' }] }]
  const response = { id: 'resp_1', model: 'sim/slow', status: 'cancelled', output, error: null }
  const stopped = keptTurn(response, [{ type: 'message', role: 'user', content: 'Go on.' }])
  expect(stopped.answer).toMatchObject({ state: 'stopped', text: 'slow sl', stored: true })
  expect(requestFor([stopped, { ...stopped, key: 'next' }]).previous).toBe('resp_1')
})

test('the list of conversations as it is now is never one that was asked for before', async () => {
  let ids = ['kept', 'deleted']
  let asked = Promise.withResolvers<void>()
  let allowed = Promise.resolve()
  const fetched = spyOn(globalThis, 'fetch').mockImplementation((async () => {
    asked.resolve()
    await allowed
    return Response.json({ data: ids.map((id) => ({ id })) })
  }) as unknown as typeof fetch)
  try {
    await conversationsNow()
    ids = ['kept']
    asked = Promise.withResolvers()
    const answered = Promise.withResolvers<void>()
    allowed = answered.promise
    const first = conversationsNow()
    await asked.promise
    const second = conversationsNow()
    setImmediate(answered.resolve)
    expect(await Promise.all([first, second])).toEqual([[{ id: 'kept' }], [{ id: 'kept' }]] as never)
  } finally {
    fetched.mockRestore()
  }
})

describe.skipIf(browserPath === null)('an answer in the chat', () => {
  const console = openedConsole()

  /** A page of the chat where answers are slow: a word each 200 ms. */
  async function prepared(frames: number, by = console.visit) {
    const visit = await by()
    const { page, context } = visit
    await context.route('**/app/v1/responses', async (route) => {
      const body = { ...(route.request().postDataJSON() as object), sim: { delay_ms: 200, frames } }
      await route.continue({ postData: JSON.stringify(body) })
    })
    await console.enter(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/slow'))
    await page.goto('/console/chat')
    await page.getByRole('button', { name: 'sim/slow' }).waitFor()
    return visit
  }

  async function ask(page: Page, text: string): Promise<void> {
    await page.getByLabel('Message').fill(text)
    await page.keyboard.press('Enter')
  }

  /** One on which an answer has begun. */
  async function asked(frames: number, by = console.visit) {
    const visit = await prepared(frames, by)
    const { page } = visit
    await ask(page, 'Go on.')
    await page.locator('article .prose').getByText('slow slow').waitFor()
    await page.waitForURL(/\/chat\/conv_/)
    return visit
  }

  const textOf = (page: Page) => page.locator('article .prose').innerText()

  test('that is stopped is there after a reload, as stopped, with its cost', async () => {
    const visit = await asked(100)
    const { page } = visit
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByTestId('cost').waitFor()
    const text = await textOf(page)
    await page.reload()
    await page.getByText('Stopped.', { exact: true }).waitFor()
    await page.getByTestId('cost').getByText('Daily').waitFor()
    expect(await textOf(page)).toStartWith(text)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('goes on while the user looks at another page of the console', async () => {
    const visit = await asked(10)
    const { page } = visit
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.waitForURL(/\/chat\/conv_/)
    await page.getByTestId('cost').waitFor()
    expect((await textOf(page)).split(' ')).toHaveLength(10)
    await page.reload()
    await page.getByTestId('cost').waitFor()
    expect((await textOf(page)).split(' ')).toHaveLength(10)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('during which its page is closed is there in another browser, as far as it was delivered', async () => {
    const { page, leave } = await asked(100, console.visitAlone)
    const { pathname } = new URL(page.url())
    await leave()
    const other = await console.visit()
    await console.enter(other.page)
    await other.page.goto(pathname)
    await other.page.getByText('Stopped.', { exact: true }).waitFor()
    expect(await textOf(other.page)).toStartWith('slow slow')
    expect(seen(other)).toEqual(clean)
    await other.leave()
  }, 30_000)

  test('that has just begun when its page is reloaded is in the list', async () => {
    const { page, leave } = await prepared(100)
    const begun = page.waitForResponse('**/app/v1/responses')
    await ask(page, 'In haste.')
    await begun
    await page.goto('/console/chat')
    await page.getByRole('link', { name: 'In haste.' }).first().click()
    await page.getByText('Stopped.', { exact: true }).waitFor()
    expect(await textOf(page)).toStartWith('slow')
    await leave()
  }, 30_000)

  test('during which the network is lost is there, to its end, when the network is back', async () => {
    const { page, context, leave } = await prepared(15)
    // Chromium's own offline mode lets a stream that has begun go on.
    await page.evaluate(() => {
      const { fetch } = globalThis
      globalThis.fetch = (async (...asked: Parameters<typeof fetch>) => {
        const response = await fetch(...asked)
        if (!String(asked[0]).endsWith('/app/v1/responses')) return response
        const broken = new TransformStream<Uint8Array, Uint8Array>({
          start: (controller) =>
            addEventListener('offline', () => controller.error(new TypeError('network error'))),
        })
        // The gateway sends on: it has not seen yet that nobody receives it.
        const [here, nowhere] = response.body!.tee()
        void nowhere.pipeTo(new WritableStream())
        return new Response(here.pipeThrough(broken), response)
      }) as typeof fetch
    })
    await ask(page, 'Go on.')
    await page.locator('article .prose').getByText('slow slow').waitFor()
    await context.setOffline(true)
    await page.getByText('The connection to the gateway broke off').waitFor()
    await context.setOffline(false)
    await page.getByText(Array.from({ length: 15 }, () => 'slow').join(' ')).waitFor()
    expect(await page.locator('article').count()).toBe(1)
    expect(await page.getByRole('alert').count()).toBe(0)
    await leave()
  }, 30_000)

  test('is waited for by a question in another tab, which follows it', async () => {
    const { page, context, leave } = await asked(15)
    const other = await context.newPage()
    await other.goto(page.url())
    await other.getByText('An answer in this conversation is still being written.').waitFor()
    await ask(other, 'And then?')
    await other.getByTestId('cost').nth(1).waitFor()
    const texts = await other.locator('article .prose').allInnerTexts()
    expect(texts.map((text) => text.split(' ').length)).toEqual([15, 15])
    await page.bringToFront()
    await page.reload()
    await page.getByTestId('cost').nth(1).waitFor()
    expect(await page.locator('article .prose').allInnerTexts()).toEqual(texts)
    await leave()
  }, 30_000)

  test('that began in another tab after the conversation was opened here is followed too', async () => {
    const { page, context, leave } = await asked(4)
    await page.getByTestId('cost').waitFor()
    const other = await context.newPage()
    await other.goto(page.url())
    await other.getByTestId('cost').waitFor()
    await ask(page, 'Second.')
    await page.locator('article .prose').nth(1).waitFor()
    await ask(other, 'Third.')
    await other.getByTestId('cost').nth(2).waitFor()
    const asks = await other.getByText(/^(Go on|Second|Third)\.$/).allInnerTexts()
    expect(asks.slice(-3)).toEqual(['Go on.', 'Second.', 'Third.'])
    await leave()
  }, 30_000)

  test('takes no place of turns that could not be loaded', async () => {
    const { page, context, leave } = await asked(4)
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
    await page.locator('article .prose').last().getByText('slow slow slow slow').waitFor()
    expect(await page.getByText('Go on.', { exact: true }).last().isVisible()).toBe(true)
    await leave()
  }, 30_000)

  test('of a conversation that is deleted meanwhile does not bring it back', async () => {
    const visit = await asked(100)
    const { page } = visit
    const [id] = /conv_\w+/.exec(page.url())!
    await page.getByRole('button', { name: 'Delete Go on.' }).first().click()
    await page.getByRole('button', { name: 'Delete for good' }).click()
    await page.getByText('Ask something.').waitFor()
    await page.locator(`a[href$="${id}"]`).first().waitFor({ state: 'detached' })
    const found = await console.answerTo(page.context(), `/console/api/conversations/${id}`)
    expect(found.status).toBe(404)
    await visit.leave()
  }, 30_000)
})
