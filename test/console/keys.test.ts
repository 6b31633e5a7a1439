// The life of a key in the console: shown once, green on its first call, replaced, revoked.

import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('keys', () => {
  const console = openedConsole()

  const callWith = (key: string, model = 'sim/echo') =>
    fetch(`${console.weir.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    })

  test('a key is shown once, turns green on its first call, and is forgotten', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByLabel('Name').fill('laptop')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const key = await page.getByTestId('key').innerText()
    expect(key).toStartWith('sk-weir-live-')
    await page.getByText('Waiting for the first call').waitFor()
    expect((await callWith(key)).status).toBe(200)
    await page.getByText('The first call has arrived: sim/echo').waitFor()
    await page.keyboard.press('Escape')
    expect(await page.getByTestId('key').count()).toBe(1)
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    expect(await page.content()).not.toContain(key)
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))
    expect(kept).not.toContain(key)

    await page.getByRole('button', { name: 'Pause laptop' }).click()
    await page.getByRole('row', { name: 'laptop' }).getByText('paused').last().waitFor()
    expect((await callWith(key)).status).toBe(401)
    await page.getByRole('button', { name: 'Resume laptop' }).click()
    await page.getByRole('button', { name: 'Pause laptop' }).waitFor()
    expect((await callWith(key)).status).toBe(200)

    await page.getByRole('button', { name: 'Revoke laptop' }).click()
    await page.getByRole('button', { name: 'Revoke the key' }).click()
    await page.getByText('It took effect at').waitFor()
    expect((await callWith(key)).status).toBe(401)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('without credit a first call works with a test key, and a phone shows what is to be done', async () => {
    const made = await console.weir.command('accounts', 'create', '--email', 'new@example.org', '--json')
    expect(made.code).toBe(0)
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page, 'new@example.org')
    await page.setViewportSize({ width: 360, height: 740 })
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByLabel('Name').fill('first')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByText('There is no credit that this key could spend yet').waitFor()
    expect(await page.getByRole('group', { name: 'A first call' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Make a test key' }).click()
    const line = await page.getByRole('group', { name: 'A first call' }).innerText()
    const key = /Bearer (sk-weir-test-[\w-]+)/.exec(line)![1]!
    expect((await callWith(key)).status).toBe(200)
    await page.getByText('The first call has arrived: sim/echo').waitFor()
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    const revoke = page.getByRole('button', { name: 'Revoke first', exact: true })
    await revoke.waitFor()
    const { x, width } = (await revoke.boundingBox())!
    expect(x + width).toBeLessThanOrEqual(360)

    await page.goto('/console')
    await page.getByRole('slider', { name: 'Cost of the last thirty days' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('what a key may read is chosen when it is made, and shown in the list; a key is replaced with an overlap', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByLabel('Name').fill('dashboard')
    await page.getByRole('button', { name: 'Limits, models, expiry' }).click()
    await page.getByLabel('What it may read').selectOption('all')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const key = await page.getByTestId('key').innerText()
    const described = await fetch(`${console.weir.baseUrl}/key`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect(await described.json()).toMatchObject({ data: { label: 'dashboard', sees: 'all' } })
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    await page.getByRole('row', { name: 'dashboard' }).getByText('reads all calls').waitFor()
    await page.getByRole('button', { name: 'Change dashboard' }).click()
    expect(await page.getByLabel('What it may read').count()).toBe(0)
    await page.keyboard.press('Escape')

    // One is replaced with an overlap: both work, and both are listed with their last use.
    await page.getByRole('button', { name: 'Create a key', exact: true }).click()
    await page.getByLabel('Name').fill('search service')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const old = await page.getByTestId('key').innerText()
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    await page.getByRole('button', { name: 'Replace search service' }).click()
    await page.getByLabel('1 hour').check()
    await page.getByRole('button', { name: 'Replace', exact: true }).click()
    const successor = await page.getByTestId('key').innerText()
    expect(successor).not.toBe(old)
    await page.getByText('The key that it replaces works until').waitFor()
    expect((await callWith(old)).status).toBe(200)
    expect((await callWith(successor)).status).toBe(200)
    await page.getByText('The first call has arrived: sim/echo').waitFor()
    await page.getByRole('button', { name: 'I have stored the key' }).click()

    const rows = page.getByRole('row').filter({ hasText: 'search service' })
    await rows.filter({ hasText: 'replaced' }).waitFor()
    expect(await rows.count()).toBe(2)
    expect(await rows.filter({ hasText: 'never' }).count()).toBe(0)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('two tabs that replace one key make one successor', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByLabel('Name').fill('shared')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    const other = await context.newPage()
    await other.goto('/console/keys')
    for (const tab of [page, other]) await tab.getByRole('button', { name: 'Replace shared' }).click()
    await Promise.all(
      [page, other].map((tab) => tab.getByRole('button', { name: 'Replace', exact: true }).click()),
    )
    await Promise.all(
      [page, other].map((tab) => tab.getByText(/only time that it is shown|key_replaced/).waitFor()),
    )
    const shown = await Promise.all([page, other].map((tab) => tab.getByTestId('key').count()))
    expect(shown.toSorted()).toEqual([0, 1])
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('a key whose answer was lost is not made again, and the form says so', async () => {
    const { page, leave } = await console.visitAlone()
    await page.clock.install()
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key', exact: true }).click()
    await page.getByLabel('Name').fill('made once')
    const path = '**/console/api/keys'
    const made = Promise.withResolvers<void>()
    // The gateway makes the key, and the answer never arrives.
    await page.route(path, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      await route.fetch()
      made.resolve()
    })
    const create = page.getByRole('button', { name: 'Create the key' })
    await create.click()
    await made.promise
    expect(await create.isDisabled()).toBe(true)
    await page.clock.fastForward(30_000)
    await page.getByText('The gateway has not answered for 30 seconds.').waitFor()
    await page.unroute(path)
    await create.click()
    await page.getByText('This request has made the key "made once" before.').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    const rows = page.getByRole('row').filter({ hasText: 'made once' })
    await rows.waitFor()
    // The form is another request when it is opened again.
    await page.getByRole('button', { name: 'Create a key', exact: true }).click()
    await page.getByLabel('Name').fill('made once')
    await create.click()
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    await rows.nth(1).waitFor()
    expect(await rows.count()).toBe(2)
    await leave()
  }, 30_000)

  test('a reader of Hindi is told in Hindi that there is no answer', async () => {
    const { page, leave } = await console.visitAlone()
    await page.clock.install()
    await console.enter(page)
    await page.evaluate(() => localStorage.setItem('weir.language', 'hi'))
    await page.goto('/console/keys')
    await page.getByRole('heading', { level: 1, name: 'कुंजियाँ' }).waitFor()
    const asked = Promise.withResolvers<void>()
    await page.route('**/console/api/keys', () => asked.resolve())
    await page.locator('main header button').click()
    await page.locator('input[name=name]').fill('laptop')
    await page.locator('dialog button[type=submit]').click()
    await asked.promise
    await page.clock.fastForward(30_000)
    await page.getByText('गेटवे ने 30 सेकंड से जवाब नहीं दिया है।').waitFor()
    await leave()
  }, 30_000)

  test('a test key has its band, where a failure is chosen that the key then meets', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByLabel('Name').fill('trial')
    await page.getByLabel('Mode').selectOption('test')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const key = await page.getByTestId('key').innerText()
    expect(key).toStartWith('sk-weir-test-')
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    const band = page.getByRole('region', { name: 'Test mode' })
    const statuses: Record<string, number> = {}
    for (const way of ['429', '500']) {
      await band.getByRole('button', { name: way }).click()
      const model = /"model": "(.+)"/.exec(await band.locator('code').innerText())![1]!
      statuses[model] = (await callWith(key, model)).status
    }
    expect(statuses).toEqual({ 'sim/error-429': 429, 'sim/error-500': 502 })
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('thousands of keys are paged and searched, and the filter of requests is typed', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    const database = new Database(`${console.weir.dataDir}/weir.db`)
    database.run('PRAGMA busy_timeout = 5000')
    database.run(
      `INSERT INTO api_key (id, account, name, mode, hash, last_four, created_at, limit_window)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
       SELECT printf('many%08d', i), account.id, 'program ' || i, 'live', printf('%064d', i), printf('%04d', i), 1000 + i, 'total'
       FROM n, account WHERE email = 'owner@localhost'`,
    )
    database.run(
      `INSERT INTO request_log (request_id, at, account, key, model, provider, stream, status, ending, prompt_tokens,
         completion_tokens, cost, attempts, total_ms)
       SELECT printf('req_%032d', rowid), ?, account, id, 'sim/rare', 'sim', 0, 200, 'finished', 1, 1, 1, 1, 1 FROM api_key
       WHERE id IN ('many00000017', 'many00001717')`,
      [Date.now() - 86_400_000],
    )
    database.close()
    const nodes = () => page.evaluate(() => document.querySelectorAll('*').length)
    await page.goto('/console/keys')
    await page.getByRole('button', { name: 'Older' }).waitFor()
    expect(await nodes()).toBeLessThan(3_000)
    await page.getByRole('searchbox', { name: 'Search keys' }).fill('program 1717')
    await page.getByRole('button', { name: 'Revoke program 1717' }).waitFor()
    await page.getByRole('button', { name: 'Older' }).waitFor({ state: 'detached' })
    expect(await page.getByRole('row').count()).toBe(2)

    await page.goto('/console/requests')
    const filter = page.getByRole('combobox', { name: 'Key' })
    await filter.fill('1717')
    await page.locator('datalist option').first().waitFor({ state: 'attached' })
    await filter.press('Enter')
    await page.waitForURL(/key=many00001717/)
    await page.getByRole('cell', { name: 'program 1717' }).waitFor()
    await page.waitForFunction(
      () =>
        document.querySelector<HTMLInputElement>('input[name=key]')?.value === 'program 1717 (many00001717)',
    )
    expect(await page.getByRole('row').count()).toBe(2)
    expect(await page.locator('option').count()).toBeLessThan(60)
    await filter.fill('program')
    await filter.press('Enter')
    await page.getByText('No single key is called program').waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)
})
