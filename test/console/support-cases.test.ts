// An operator's support case in the console: one search, one page; and everybody's requests, narrowed down in the address.

import { describe, expect, test } from 'bun:test'
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { accountWith, eventually, getAs, keyFor, post } from '../support/call-gateway.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { clean, seen } from './visitor.ts'
import { Walk } from './walk.ts'

/** Where it is: what lies above it takes the click. */
async function clickOn(page: Page, place: Locator): Promise<void> {
  const { x, y, width, height } = (await place.boundingBox())!
  await page.mouse.click(x + width / 2, y + height / 2)
}

describe.skipIf(browserPath === null)('a support case', () => {
  const console = openedConsole()
  const messages = [{ role: 'user', content: 'Hello, river.' }]

  async function shop() {
    const { weir } = console
    const made = await accountWith(weir, 'shop@example.org', { purchased: '5' }, '--name', 'till')
    const headers = { 'x-weir-tags': 'feature=till' }
    const served = await post(weir, { model: 'sim/echo', messages }, { key: made.key, headers })
    const failed = await post(weir, { model: 'sim/error-500', messages }, { key: made.key })
    for (const { requestId } of [served, failed])
      await eventually(
        () => getAs(`${weir.baseUrl}/requests/${requestId}`, made.key),
        ({ status }) => status === 200,
      )
    return { ...made, served: served.requestId, failed: failed.requestId }
  }

  const shots = process.env['SHOTS']
  async function shoot(page: Page, name: string): Promise<void> {
    if (shots === undefined) return
    for (const theme of ['light', 'dark'] as const)
      for (const width of [1280, 360]) {
        await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
        await page.setViewportSize({ width, height: 860 })
        await page.screenshot({ path: `${shots}/${name}-${theme}-${width}.png`, fullPage: true })
      }
  }

  /** Ten thousand accounts, written at once, and the address of one of them. */
  function withAccounts(dataDir: string): { email: string; count: number } {
    using database = new Database(join(dataDir, 'weir.db'))
    database.run(
      `INSERT INTO account (id, email, created_at, suspended, email_verified_at)
       WITH RECURSIVE n(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM n WHERE at < 9999)
       SELECT 'acct_many' || at, 'person' || at || '@example.org', 1764000000000 + at, 0, 1764000000000 FROM n`,
    )
    const { count } = database.query('SELECT count(*) AS count FROM account').get() as { count: number }
    return { email: 'person5000@example.org', count }
  }

  /** Whether it can be read without scrolling. */
  async function isInView(place: Locator): Promise<boolean> {
    await place.waitFor()
    const box = (await place.boundingBox())!
    return box.y + box.height <= place.page().viewportSize()!.height
  }

  test('takes one search and one page, among ten thousand accounts', async () => {
    const { weir } = console
    const { email, count } = withAccounts(weir.dataDir)
    expect(count).toBeGreaterThan(10_000)
    const grant = ['--account', email, '--pool', 'purchased', '--usd', '1']
    expect((await weir.command('credits', 'grant', ...grant)).code).toBe(0)
    const { key, keyId } = await keyFor(weir, email, '--name', 'till')
    const asked = { model: 'sim/echo', messages: [{ role: 'user', content: 'Once, I thought.' }] }
    const called = async () => {
      const { requestId } = await post(weir, asked, { key })
      await eventually(
        () => getAs(`${weir.baseUrl}/requests/${requestId}`, key),
        ({ status }) => status === 200,
      )
      return requestId
    }
    const [first, again] = [await called(), await called()]
    const visit = await console.visit()
    const { page } = visit
    await console.signIn(page)
    const box = page.getByLabel('Find an account, a key, a call, a payment, a voucher or a group')
    const one = { clicks: 1, entries: 1, pages: 1 }
    const faults: string[] = []
    /** A case begins on the operator's page: the box is clicked on, and the text is typed. */
    const search = async (
      name: string,
      text: string,
      there: () => Promise<void>,
      faultsOn: (page: Page, address: string) => Promise<readonly string[]> = () => Promise.resolve([]),
    ) => {
      await page.goto('/console/operator')
      await box.waitFor()
      const walk = await Walk.from(page, name)
      await walk.click(box)
      await walk.enter(box, text)
      await there()
      expect({ name, ...(await walk.end()) }).toEqual({ name, ...one })
      const { pathname, search: query } = new URL(page.url())
      faults.push(...(await faultsOn(page, `${pathname.replace('/console/', '')}${query}`)))
      await shoot(page, name)
      await page.setViewportSize({ width: 1280, height: 860 })
    }

    // "I was charged twice": by the address, with or without a time, and by the ids of both calls.
    const both = page.getByRole('group', { name: 'Calls beside each other' })
    const seesBoth = async () => {
      expect(await isInView(page.getByText('They may be one request that was sent again'))).toBe(true)
      for (const id of [first, again]) expect(await isInView(both.locator(`a[href$="${id}"]`))).toBe(true)
      expect(await both.getByText('from Purchased').count()).toBe(2)
    }
    await search('charged twice, by address', email, seesBoth, faultsOf)
    const about = new Date().toISOString().slice(0, 16).replace('T', ' ')
    await search('charged twice, by address and time', `${email} ${about} UTC`, async () => {
      await seesBoth()
      await page.getByText(/^Calls about /).waitFor()
    })
    await search('charged twice, by both ids', `${first} ${again}`, seesBoth)

    // "My key does not work": by its end.
    expect((await weir.command('keys', 'pause', keyId)).code).toBe(0)
    await post(weir, asked, { key })
    const refused = page.getByRole('link', { name: '401 api_key_paused' })
    await eventually(
      () => getAs(`${weir.baseUrl}/key`, key),
      ({ status }) => status === 401,
    )
    await search(
      'my key does not work, by its end',
      key.slice(-4),
      async () => {
        expect(await isInView(page.getByText('Its calls are refused: api_key_paused.'))).toBe(true)
        expect(await isInView(page.getByText(/^The key is paused since .*, by an operator\.$/))).toBe(true)
        expect(await isInView(page.getByText(/^Purchased credit of the account: \$0\.99/))).toBe(true)
        await refused.waitFor()
      },
      faultsOf,
    )

    // "Find this request": by its id.
    await search(
      'find this request, by its id',
      again,
      async () => {
        await page.getByRole('heading', { level: 1, name: 'sim/echo' }).waitFor()
        await page.getByRole('heading', { name: 'Attempts' }).waitFor()
        await page.getByRole('heading', { name: 'Receipt' }).waitFor()
        await page.getByText('Paid from Purchased').waitFor()
      },
      faultsOf,
    )
    // Who has found the account asks about one of its keys.
    await page.getByRole('link', { name: email }).click()
    await page.getByRole('link', { name: 'till', exact: true }).click()
    await page.getByText('Its calls are refused: api_key_paused.').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 90_000)

  test('is found by what the customer has, and a row leads to its page wherever it is clicked', async () => {
    const { key, keyId, served, failed } = await shop()
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator')
    const box = page.getByLabel('Find an account, a key, a call, a payment, a voucher or a group')

    // The request id, as a client's log has it.
    await box.fill(served)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'sim/echo' }).waitFor()
    expect(new URL(page.url()).pathname).toBe(`/console/operator/requests/${served}`)
    await page.getByText('till', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'shop@example.org' }).waitFor()

    // The key as a whole finds it; its secret is in no address.
    await box.fill(key)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'shop@example.org' }).waitFor()
    expect(new URL(page.url()).searchParams.get('key')).toBe(keyId)
    expect(page.url()).not.toContain(key.slice(-20))

    // Several are called that: a row leads to its page wherever it is clicked.
    await accountWith(console.weir, 'shopper@example.org', {})
    await box.fill('shop')
    await page.keyboard.press('Enter')
    const found = page.getByRole('row').filter({ hasText: 'shopper@example.org' })
    await clickOn(page, found.getByText('active', { exact: true }))
    await page.getByRole('heading', { level: 1, name: 'shopper@example.org' }).waitFor()

    await box.fill('nobody-knows-this')
    await page.keyboard.press('Enter')
    await page.getByText('Nothing is called that.').waitFor()

    // Everybody's requests: a part of a model, an outcome, and the view stands in the address.
    await page.getByRole('link', { name: 'All calls' }).click()
    await page.getByRole('row').filter({ hasText: 'shop@example.org' }).nth(1).waitFor()
    await page.getByPlaceholder('a part of its name').fill('ERROR')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.waitForURL(/model=\*ERROR\*/)
    await page.getByRole('combobox', { name: 'Outcome' }).selectOption('failed')
    await page.waitForURL(/outcome=failed/)
    await page.reload()
    const rows = page.getByRole('row').filter({ hasText: 'shop@example.org' })
    await rows.first().waitFor()
    expect(await rows.count()).toBe(1)
    expect(await page.getByPlaceholder('a part of its name').inputValue()).toBe('ERROR')
    // The time is that of the call, and not how long ago it was.
    expect(await rows.first().getByRole('link').textContent()).toMatch(/\d{1,2}:\d\d/)

    const download = page.waitForEvent('download')
    await page.getByRole('link', { name: 'CSV' }).click()
    const file = await (await download).createReadStream()
    let text = ''
    for await (const piece of file) text += String(piece)
    const lines = text.trimEnd().split('\r\n')
    expect(lines.length).toBe(2)
    expect(lines[1]).toContain(failed)

    await clickOn(page, rows.first().getByRole('cell', { name: 'upstream_error' }))
    await page.getByRole('heading', { level: 1, name: 'sim/error-500' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)
})
