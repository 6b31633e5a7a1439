// The console where something goes wrong: an origin without the browser's secure functions, a script that is gone, a
// connection that breaks, a reader who goes elsewhere while an answer is being saved.

import { describe, expect, test } from 'bun:test'
import { after, newAnswer } from '../../src/console/chat/thread.ts'
import { openedConsole } from './opened.ts'
import { show } from './page-faults.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen, say } from './visitor.ts'

test('a cited address that is none is no source', () => {
  const cite = (url: string) => ({
    type: 'response.output_text.annotation.added',
    annotation: { type: 'url_citation', url, title: 'a page' },
  })
  const answer = ['https://[', 'https://', 'https://example.com/a']
    .map(cite)
    .reduce(after, newAnswer('sim/echo'))
  expect(answer.sources.map(({ url }) => url)).toEqual(['https://example.com/a'])
})

describe.skipIf(browserPath === null)('the console', () => {
  const console = openedConsole()

  /** A signed-in visitor of the chat with a model. */
  async function chatting(model: string) {
    const visit = await console.visit()
    await console.enter(visit.page)
    await visit.page.evaluate((id) => localStorage.setItem('weir.model', id), model)
    await visit.page.goto('/console/chat')
    await visit.page.getByRole('button', { name: model }).waitFor()
    return visit
  }

  test('works over plain HTTP, where browsers have no clipboard and no randomUUID', async () => {
    const visit = await console.visitAlone()
    const { context, page } = visit
    await context.addInitScript(() => {
      Object.defineProperty(Crypto.prototype, 'randomUUID', { value: undefined })
      Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })
    })
    await console.enter(page)
    await page.goto('/console/connect')
    // The simulator's models that misbehave are no first call.
    await page.getByLabel('Model').locator('option').first().waitFor({ state: 'attached' })
    expect(await page.getByLabel('Model').inputValue()).toBe('sim/echo')
    await page.getByRole('button', { name: 'Copy' }).first().click()
    await page.getByText('Copied').waitFor()
    await page.goto('/console/chat')
    await page.getByLabel('Message').focus()
    await page.keyboard.press('Control+V')
    expect(await page.getByLabel('Message').inputValue()).toBe(`http://127.0.0.1:${console.weir.port}/v1`)
    await page.keyboard.press('Enter')
    await page.locator('article .prose').getByText('/v1').waitFor()
    await show(page, 'operator/accounts')
    await page.getByRole('link', { name: 'owner@localhost' }).click()
    await page.getByRole('heading', { level: 1, name: 'owner@localhost' }).waitFor()
    await show(page, 'credits/top-up')
    await page.getByLabel('Amount in INR').fill('500')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.waitForURL(/hooks\/sim\//)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('says that a page cannot be loaded, and shows the others', async () => {
    const { page, leave } = await console.visit()
    await console.signIn(page)
    await page.route(/assets\/chat/, (route) => route.abort())
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.getByRole('heading', { name: 'This page cannot be shown.' }).waitFor()
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.unroute(/assets\/chat/)
    await page.getByRole('button', { name: 'Load again' }).click()
    await page.getByText('Ask something.').waitFor()
    await leave()
  }, 30_000)

  test('begins a new chat after a first answer that was stopped', async () => {
    const visit = await chatting('sim/hang')
    const { page } = visit
    await say(page, 'Say nothing.')
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('The answer was stopped.').waitFor({ state: 'attached' })
    await page.getByRole('link', { name: 'New chat' }).click()
    await page.getByText('Ask something.').waitFor()
    expect(await page.locator('article').count()).toBe(0)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('saves an answer whose reader went elsewhere, and lets the reader stay there', async () => {
    const visit = await chatting('sim/echo')
    const { page } = visit
    const saving = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    await page.route('**/console/api/conversations', async (route) => {
      if (route.request().method() === 'POST') {
        asked.resolve()
        await saving.promise
      }
      await route.continue()
    })
    await say(page, 'Remember this.')
    await asked.promise
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    const answered = page.waitForResponse('**/app/v1/responses')
    saving.resolve()
    await (await answered).finished()
    expect(new URL(page.url()).pathname).toBe('/console/keys')
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.getByRole('link', { name: 'Remember this.' }).first().click()
    await page.locator('article .prose').getByText('Remember this.').waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('goes on with what was said in another tab', async () => {
    const visit = await chatting('sim/echo')
    const { context, page } = visit
    await say(page, 'one')
    await page.waitForURL(/conv_/)
    const other = await context.newPage()
    await other.goto(page.url())
    await other.locator('article .prose').getByText('one').waitFor()
    await say(other, 'two')
    await other.getByTestId('cost').nth(1).waitFor()
    // The first tab is looked at again.
    await page.bringToFront()
    await page.evaluate(() => dispatchEvent(new Event('visibilitychange')))
    await page.locator('article .prose').getByText('two').waitFor()
    await say(page, 'three')
    await page.locator('article .prose').getByText('three').waitFor()
    await page.getByTestId('cost').nth(2).waitFor()
    await page.reload()
    await page.locator('article .prose').getByText('three').waitFor()
    expect(await page.locator('article .prose').allInnerTexts()).toEqual(['one', 'two', 'three'])
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('says why there is no answer, without a link to a code that nobody explains', async () => {
    const visit = await chatting('sim/echo')
    const { page } = visit
    const begun = { type: 'response.created', response: { id: 'resp_1' } }
    await page.route('**/app/v1/responses', (route) =>
      route.fulfill({ contentType: 'text/event-stream', body: `data: ${JSON.stringify(begun)}\n\n` }),
    )
    await say(page, 'Hello')
    const alert = page.getByRole('alert')
    await alert.getByText('The connection to the gateway broke off').waitFor()
    expect(await alert.getByRole('link').count()).toBe(0)

    // A call that failed before its answer began leads to its request.
    await page.unroute('**/app/v1/responses')
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/error-500'))
    await page.goto('/console/chat')
    await page.getByRole('button', { name: 'sim/error-500' }).waitFor()
    await say(page, 'Hello')
    await page.getByRole('link', { name: 'Why?' }).click()
    await page.getByRole('heading', { name: 'Why it failed' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('keeps what was typed when the session ends, and goes on after the sign-in', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key', exact: true }).click()
    await page.getByLabel('Name').fill('typed before')
    await context.clearCookies()
    await page.getByRole('button', { name: 'Create the key' }).click()
    const again = page.getByRole('dialog', { name: 'Your session has ended' })
    await again.waitFor()
    expect(await page.getByLabel('Name').isVisible()).toBe(false)
    await page.keyboard.press('Escape')
    expect(await again.isVisible()).toBe(true)
    const [reset] = await Promise.all([
      context.waitForEvent('page'),
      again.getByRole('link', { name: 'Forgot your password?' }).click(),
    ])
    await reset.getByText('Ask its operator for a sign-in link').waitFor()
    await console.enter(reset)
    await again.getByRole('button', { name: 'I have signed in in another tab' }).click()
    expect(await page.getByLabel('Name').inputValue()).toBe('typed before')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByText('This is the only time that it is shown').waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('shows nothing of the account whose session ended to another one that signs in', async () => {
    const { context, page, leave } = await console.visit()
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key', exact: true }).click()
    await page.getByLabel('Name').fill('typed before')
    await context.clearCookies()
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor()
    await console.weir.command('accounts', 'create', '--email', 'eve@example.org', '--json')
    const other = await context.newPage()
    await console.enter(other, 'eve@example.org')
    await page.getByRole('button', { name: 'I have signed in in another tab' }).click()
    await page.getByText('eve@example.org').last().waitFor()
    expect(await page.getByLabel('Name').count()).toBe(0)
    await leave()
  }, 30_000)

  test('keeps a question that cannot be asked because the models cannot be loaded', async () => {
    const { context, page, leave } = await console.visit()
    await console.enter(page)
    await context.route('**/console/api/models', (route) => route.fulfill({ status: 503, body: '' }))
    await page.goto('/console/chat')
    await say(page, 'Do not lose this.')
    await page.getByRole('alert').getByText('nothing was sent').waitFor()
    expect(await page.getByLabel('Message').inputValue()).toBe('Do not lose this.')
    await context.unroute('**/console/api/models')
    await page.keyboard.press('Enter')
    await page.locator('article .prose').getByText('Do not lose this.').waitFor()
    expect(await page.getByLabel('Message').inputValue()).toBe('')
    await leave()
  }, 30_000)

  test('keeps every file of several that are added at once, and refuses one that is too large unread', async () => {
    const visit = await chatting('sim/echo')
    const { page } = visit
    // Wherever they are dropped: the browser would leave the page and show them instead.
    const kept = await page.getByRole('region', { name: 'Conversation' }).evaluate((region) =>
      ['a.txt', 'b.txt'].flatMap((name) => {
        const dataTransfer = new DataTransfer()
        dataTransfer.items.add(new File([`in ${name}`], name, { type: 'text/plain' }))
        const drag = { dataTransfer, bubbles: true, cancelable: true }
        return ['dragover', 'drop'].map((type) => !region.dispatchEvent(new DragEvent(type, drag)))
      }),
    )
    expect(kept).toEqual([true, true, true, true])
    await page.getByRole('button', { name: 'Remove a.txt' }).waitFor()
    await page.getByRole('button', { name: 'Remove b.txt' }).waitFor()
    await page.locator('form').evaluate((form) => {
      const file = new File(['a'], 'huge.bin')
      Object.defineProperty(file, 'size', { value: 2 ** 40 })
      const event = new DragEvent('drop', { bubbles: true, cancelable: true })
      Object.defineProperty(event, 'dataTransfer', { value: { files: [file], types: ['Files'] } })
      form.dispatchEvent(event)
    })
    await page.getByText('The files are larger than a request may be.').waitFor()
    // Files alone are a question; no bubble without a word stands below them.
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('article .prose').getByText('in b.txt').waitFor()
    expect(await page.locator('article p').filter({ hasText: /^$/ }).count()).toBe(0)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)
})
