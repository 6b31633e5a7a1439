// HTML and SVG that a model wrote are shown in a frame that has no origin, knows nothing of the console and reaches
// nobody.

import { afterAll, describe, expect, test } from 'bun:test'
import { pageOf } from '../../src/console/chat/artifact.tsx'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults } from './visitor.ts'

test.each([
  ['html', '<p>Hello', true],
  ['HTML', '<p>Hello', true],
  ['', '<!DOCTYPE html><p>Hello', true],
  ['', '<html><p>Hello', true],
  ['svg', '<svg/>', true],
  ['xml', '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', true],
  ['xml', '<note/>', false],
  ['', '<p>Hello', false],
  ['js', 'const page = "<html>"', false],
  ['', '<htmlish>', false],
])('a block of %p with %p is a page: %p', (language, text, isPage) => {
  expect(pageOf(language, text) !== undefined).toBe(isPage)
})

/** All that a page could try, with what came of each as its text. */
const attempts = (elsewhere: string) => `<!doctype html><p id=out></p><script>
const said = {}
const out = () => (document.getElementById('out').textContent = JSON.stringify(said))
const tried = (name, work) => { try { said[name] = String(work()) } catch (error) { said[name] = error.name } out() }
said.origin = origin
tried('cookie', () => document.cookie)
tried('storage', () => localStorage.length)
tried('parent', () => parent.document.title)
tried('top', () => { top.location = '${elsewhere}/top' })
tried('open', () => open('${elsewhere}/open'))
tried('rtc', () => typeof RTCPeerConnection)
for (const [name, address] of [['own', '/console/api/session'], ['foreign', '${elsewhere}/fetch']])
  fetch(address).then(() => 'answered', (error) => error.name).then((text) => { said[name] = text; out() })
const image = new Image(); image.src = '${elsewhere}/image'
navigator.sendBeacon?.('${elsewhere}/beacon')
const form = document.createElement('form'); form.action = '${elsewhere}/form'
document.body.append(form); tried('form', () => form.submit())
const link = document.createElement('link'); link.rel = 'stylesheet'; link.href = '${elsewhere}/style'
document.head.append(link)
const nested = document.createElement('iframe'); nested.src = '${elsewhere}/nested'; document.body.append(nested)
</script>`

describe.skipIf(browserPath === null)('an artifact', () => {
  /** What has reached another host: the browser notes also what it has kept back. */
  const reached: string[] = []
  const other = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ url }) => {
      reached.push(new URL(url).pathname)
      return new Response('there', { headers: { 'access-control-allow-origin': '*' } })
    },
  })
  afterAll(() => other.stop(true))
  const elsewhere = `http://127.0.0.1:${other.port}`
  const console = openedConsole()

  test('runs, and reaches neither the console nor anybody else', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const show = async (text: string) => {
      await page.getByLabel('Message').fill(text)
      await page.keyboard.press('Enter')
      const answer = page.locator('article').last()
      await answer.getByTestId('cost').waitFor()
      const button = answer.getByRole('button', { name: 'Show it' })
      await button.press('Enter')
      return answer.frameLocator('iframe')
    }
    const html = await show(`\`\`\`html\n${attempts}\n\`\`\``)
    const out = html.locator('#out')
    await out.filter({ hasText: '"foreign"' }).filter({ hasText: '"own"' }).waitFor()
    expect(JSON.parse(await out.innerText())).toEqual({
      origin: 'null',
      cookie: 'SecurityError',
      storage: 'SecurityError',
      parent: 'SecurityError',
      top: 'SecurityError',
      open: 'null',
      rtc: 'undefined',
      own: 'TypeError',
      foreign: 'TypeError',
      form: 'undefined',
    })
    const svg = await show('```svg\n<svg viewBox="0 0 9 9"><circle cx="4" cy="4" r="3"/></svg>\n```')
    await svg.locator('circle').waitFor()
    const faults = await accessibilityFaults(page)

    // A frame may lead itself elsewhere; the console's policy does not let it.
    const kept = page.waitForEvent('console', { predicate: (said) => said.text().includes('frame-src') })
    await show(`\`\`\`html\n<p>Here</p><script>location = '${elsewhere}/away'</script>\n\`\`\``)
    await kept
    expect(context.pages()).toHaveLength(1)
    // That it would have arrived from a page without such a policy.
    expect(await (await fetch(`${elsewhere}/here`)).text()).toBe('there')
    expect({ faults, reached }).toEqual({ faults: [], reached: ['/here'] })

    const alone = await context.request.get('/console/artifact')
    expect(alone.headers()['content-security-policy']).toStartWith(
      "sandbox allow-scripts; default-src 'none'; ",
    )
    await context.close()
  }, 60_000)
})
