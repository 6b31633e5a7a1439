// What the chat and the frame of the console can do, each tried in a browser by an account of its own: one gateway and one
// browser for all.

import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { readExport } from '../../src/console/chat/exports.tsx'
import { browserPath } from '../support/browser.ts'
import { tempDir } from '../support/tmp.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, clean, seen, say } from './visitor.ts'

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

describe.skipIf(browserPath === null)('the chat and its frame', () => {
  const console = openedConsole(() => ({ config: 'accounts: { share_links: true }' }))

  /** As an account that nobody else uses. */
  async function enter(page: Page, name: string): Promise<void> {
    const { code } = await console.weir.command('accounts', 'create', '--email', `${name}@example.org`)
    expect(code).toBe(0)
    await console.enter(page, `${name}@example.org`)
  }

  test('takes typing, ↑↓ and Enter, keeps favourites and recent models, and returns to the composer', async () => {
    const visit = await console.visit()
    const { page } = visit
    await enter(page, 'picker')
    await page.goto('/console')
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
    await visit.leave()
  }, 30_000)

  test('finds pages, models and actions by Ctrl-K, and keeps the theme and what is folded', async () => {
    const visit = await console.visit()
    const { page } = visit
    await enter(page, 'frame')
    await page.goto('/console')
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    const palette = page.getByRole('dialog', { name: 'Find' })
    const take = async (typed: string) => {
      await page.keyboard.press('Control+k')
      await palette.waitFor()
      await page.keyboard.type(typed)
      // Models and conversations are loaded when they are first wanted.
      await palette.getByRole('option').first().waitFor()
      await page.keyboard.press('Enter')
      await palette.waitFor({ state: 'detached' })
    }
    await take('usage')
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor()
    await take('sim/hang')
    await page.locator('button[aria-haspopup=dialog]', { hasText: 'sim/hang' }).waitFor()
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe('Message')

    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
    const light = await paper()
    await take('dark')
    // What is taken is done when the palette has closed, in a turn of its own.
    await page.locator('html[data-theme=dark]').waitFor()
    const dark = await paper()
    expect(dark).not.toBe(light)
    await page.reload()
    await page.getByLabel('Message').waitFor()
    expect(await paper()).toBe(dark)
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.getByRole('complementary').getByLabel('Theme').selectOption('light')
    expect(await paper()).toBe(light)
    await page.getByRole('complementary').getByLabel('Theme').selectOption('system')
    expect(await paper()).toBe(dark)

    const menu = page.getByRole('complementary')
    const wide = (await menu.boundingBox())!.width
    await take('fold the menu')
    await page.getByRole('button', { name: 'Fold the conversations' }).click()
    await page.reload()
    await page.getByRole('button', { name: 'Unfold the conversations' }).waitFor()
    expect((await menu.boundingBox())!.width).toBeLessThan(wide / 3)
    expect(await page.getByRole('link', { name: 'Keys', exact: true }).isVisible()).toBe(true)
    await page.keyboard.press('Control+k')
    await palette.waitFor()
    const faults = [...(await accessibilityFaults(page))]
    await page.keyboard.press('Escape')
    await palette.waitFor({ state: 'detached' })
    faults.push(...(await accessibilityFaults(page)))
    await page.getByRole('button', { name: 'Unfold the menu' }).click()
    expect((await menu.boundingBox())!.width).toBe(wide)
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 30_000)

  test('keep instructions, lie in folders, are found by their words, or are not stored', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await enter(page, 'places')
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
    const listed = await console.answerTo(context, '/console/api/conversations')
    expect(((await listed.json()) as { data: unknown[] }).data).toHaveLength(1)
    await page.reload()
    await page.getByText('Ask something.').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)

  test('answer one question, each charged by itself, and are there again after a reload', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await enter(page, 'compare')
    await page.evaluate(() => localStorage.setItem('weir.compared-models', '["sim/echo","sim/long"]'))
    await page.goto('/console/chat')
    await page.getByRole('link', { name: 'Compare' }).click()
    const [first, second] = [
      page.getByRole('region', { name: 'First model' }),
      page.getByRole('region', { name: 'Second model' }),
    ]
    await say(page, 'The Rhine.')
    await first.getByTestId('cost').waitFor()
    await second.getByTestId('cost').waitFor()
    await page.waitForURL(/a=conv_\w+&b=conv_\w+|b=conv_\w+&a=conv_\w+/)
    await first.getByText('The Rhine.').first().waitFor()

    await second.getByRole('button', { name: /sim\/long/ }).click()
    await page.getByRole('combobox', { name: 'Search models' }).fill('sim/tools')
    await page.keyboard.press('Enter')
    await say(page, 'And the Elbe?')
    await first.getByTestId('cost').nth(1).waitFor()
    await second.getByTestId('cost').nth(1).waitFor()
    const faults = [...(await accessibilityFaults(page))]
    await page.reload()
    await first.getByTestId('cost').nth(1).waitFor()
    await second.getByTestId('cost').nth(1).waitFor()
    await page.setViewportSize({ width: 360, height: 860 })
    faults.push(...(await accessibilityFaults(page)))
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0)

    const calls = (await (await console.answerTo(context, '/console/api/requests?limit=10')).json()) as {
      data: { model: string; outcome: string }[]
    }
    expect(calls.data.map(({ model }) => model).toSorted()).toEqual([
      'sim/echo',
      'sim/echo',
      'sim/long',
      'sim/tools',
    ])
    const talks = (await (await console.answerTo(context, '/console/api/conversations')).json()) as {
      data: { title: string }[]
    }
    expect(talks.data.map(({ title }) => title).toSorted()).toEqual([
      'The Rhine. (echo)',
      'The Rhine. (long)',
    ])
    await second.getByRole('link', { name: 'Go on with this one' }).click()
    await page.getByRole('heading', { level: 1, name: 'The Rhine. (long)' }).waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)

  test('stores what can be stored, names the rest, and is continued like any other', async () => {
    using dir = tempDir('weir-import-')
    const visit = await console.visit()
    const { page } = visit
    await enter(page, 'imported')
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    await page.getByRole('button', { name: 'Import' }).click()
    const file = page.getByLabel('File of the export')
    writeFileSync(dir.join('bad.json'), 'PK no json')
    await file.setInputFiles(dir.join('bad.json'))
    await page.getByRole('alert').getByText('The file is not JSON.').waitFor()
    const message = (parent: string | null, role: string, text: string) => ({
      parent,
      message: { author: { role }, content: { content_type: 'text', parts: [text] } },
    })
    const rivers = {
      title: 'Rivers',
      current_node: 'd',
      mapping: {
        a: message(null, 'user', 'Which is the longest river?'),
        b: message('a', 'assistant', 'The Nile.'),
        c: message('b', 'user', 'And this?'),
        d: message('c', 'assistant', 'A lake.'),
      },
    }
    const long = { title: 'Long', mapping: { a: message(null, 'user', 'x'.repeat(500_000)) } }
    const nothing = { title: 'Nothing', mapping: { a: message(null, 'user', '') } }
    writeFileSync(dir.join('conversations.json'), JSON.stringify([long, rivers, nothing]))
    await file.setInputFiles(dir.join('conversations.json'))
    await page
      .getByText('ChatGPT: 1 of 2 conversations are imported. 1 hold nothing that was said.')
      .waitFor()
    await page.getByRole('list', { name: 'Left out' }).getByText('It is larger than 1 MB.').waitFor()
    const faults = [...(await accessibilityFaults(page))]
    await page.keyboard.press('Escape')

    const list = page.getByRole('navigation', { name: 'Conversations' })
    await list
      .locator('details')
      .filter({ hasText: 'ChatGPT' })
      .getByRole('link', { name: /Rivers/ })
      .click()
    await page.locator('article').getByText('The Nile.').waitFor()
    expect(await page.getByRole('button', { name: 'Edit' }).count()).toBe(0)
    await say(page, 'Thank you.')
    await page.getByTestId('cost').waitFor()
    await page.reload()
    await page.getByTestId('cost').waitFor()
    const articles = await page.locator('article').allInnerTexts()
    expect(articles.map((text) => text.split('\n')[1]?.trim())).toHaveLength(3)
    expect(articles[0]).toContain('The Nile.')
    expect(articles[2]).toContain('Thank you.')
    await page.getByRole('searchbox', { name: 'Search conversations' }).fill('nile')
    await page
      .getByRole('region', { name: 'In what was said' })
      .getByRole('link', { name: /Rivers/ })
      .waitFor()
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Conversation as JSON' }).click()
    const text = await Bun.file((await (await saved).path())!).text()
    expect(readExport(text).conversations[0]!.turns).toHaveLength(3)
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)

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
  test('runs, and reaches neither the console nor anybody else', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await enter(page, 'artifacts')
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const show = async (text: string) => {
      await say(page, text)
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

    const alone = await console.answerTo(context, '/console/artifact')
    expect(alone.headers.get('content-security-policy')).toStartWith(
      "sandbox allow-scripts; default-src 'none'; ",
    )
    await visit.leave()
  }, 60_000)

  test('shows itself to whoever has the link, and nothing else, until it is revoked', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await enter(page, 'share')
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const ask = async (text: string, answers: number) => {
      await say(page, text)
      await page.getByTestId('cost').nth(answers).waitFor()
    }
    await page.getByRole('button', { name: 'Instructions' }).click()
    await page.getByLabel('System prompt').fill('The hidden instructions.')
    await page.getByRole('button', { name: 'Save' }).click()
    await ask('The **Rhine**.', 0)
    await page.getByRole('button', { name: 'Share', exact: true }).click()
    await page.getByRole('button', { name: 'Make a link' }).click()
    const link = page.getByRole('group', { name: 'The link' })
    await link.waitFor()
    const faults = [...(await accessibilityFaults(page))]
    const url = await link.innerText()
    await page.keyboard.press('Escape')
    await ask('Said later.', 1)

    const stranger = await console.visit({ width: 360, theme: 'dark' })
    const answered: string[] = []
    stranger.page.on('request', (request) => answered.push(new URL(request.url()).pathname))
    const response = await stranger.page.goto(url)
    expect(response!.headers()).toMatchObject({
      'x-robots-tag': 'noindex, nofollow',
      'referrer-policy': 'no-referrer',
      'content-security-policy': expect.stringContaining(
        "default-src 'none'; script-src 'self'",
      ) as unknown as string,
    })
    await stranger.page.locator('article strong').getByText('Rhine').waitFor()
    faults.push(...(await accessibilityFaults(stranger.page)))
    const token = url.split('/').at(-1)!
    const calls = answered.filter((path) => path.includes('/api/'))
    expect(calls).toEqual([`/console/api/shared/${token}`])
    const shown = await (await console.answerTo(stranger.context, `/console/api/shared/${token}`)).text()
    const account = /acct_\w+/.exec(
      await (await console.answerTo(context, '/console/api/session')).text(),
    )![0]
    for (const secret of ['Said later', 'hidden instructions', account, 'share@example.org', 'resp_', 'cost'])
      expect(shown).not.toContain(secret)

    await page.getByRole('button', { name: 'Shared' }).click()
    await page.getByRole('button', { name: 'Show it as it is now' }).click()
    await stranger.page.reload()
    await stranger.page.locator('article').getByText('Said later.').first().waitFor()
    await page.getByRole('button', { name: 'Revoke the link' }).click()
    await page.getByRole('button', { name: 'Make a link' }).waitFor()
    await stranger.page.reload()
    await stranger.page.getByText('There is no such conversation here').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    expect(seen(stranger)).toEqual(clean)
    await stranger.leave()
    await visit.leave()
  }, 60_000)
})
