// Operators add a provider and a route in the console: called before it is saved, shown before it is in force, taken back
// with one press. What the file says is read-only, and named.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { browserPath } from '../support/browser.ts'
import { post } from '../support/call-gateway.ts'
import { type MockProvider, startMockProvider } from '../support/mock-provider.ts'
import { openedConsole } from './opened.ts'
import { faultsOf, show } from './page-faults.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

const key = 'secret-key-of-the-lab-4711'
let lab: MockProvider
beforeAll(async () => void (lab = await startMockProvider({ words: ['Indeed.'] })))
afterAll(() => lab?.stop())

describe.skipIf(browserPath === null)('providers and models in the console', () => {
  const console = openedConsole(() => ({
    config: JSON.stringify({
      local_servers: { discover: false },
      secrets: { master_key: 'a-master-key-0123456789-abcdefghijk' },
      providers: { groq: { api_key: 'gsk-of-the-file-0123456789', name: 'Ours' } },
      models: [{ id: 'written', route: { to: ['sim/echo'] } }],
    }),
  }))
  const ask = (model: string) => {
    const body = { model, max_tokens: 20, messages: [{ role: 'user', content: 'How deep?' }] }
    return post(console.weir, body, { key: console.weir.key })
  }

  test('are called, added, routed to, and taken back', async () => {
    const operator = await console.visit()
    const { page } = operator
    const faults: string[] = []
    const dialog = page.getByRole('dialog')
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const putInForce = async () => {
      await button('See what changes').click()
      await button('Put it in force').click()
      await dialog.waitFor({ state: 'detached' })
    }
    expect((await ask('sim/echo')).status).toBe(200)
    await console.enter(page)

    await page.goto('/console/operator/providers')
    const simulator = page.getByRole('listitem').filter({ hasText: 'Simulator' })
    expect(await simulator.getByRole('row', { name: /^Last hour/ }).innerText()).toMatch(/1\s+100 %\s+0/)
    await button('Test Simulator').click()
    await dialog.getByText('Say yes.').waitFor()
    await dialog.getByText(/\$0\.0000/).waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await page.keyboard.press('Escape')

    await button('Add a provider').click()
    await dialog.getByLabel('Id').fill('lab')
    await dialog.getByLabel('Address').fill(lab.url)
    await dialog.getByLabel('Key', { exact: true }).fill(key)
    await dialog.getByLabel('Its first model').fill('m')
    await dialog.getByLabel('Input, USD per million').fill('1')
    await dialog.getByLabel('Output, USD per million').fill('2')
    faults.push(...(await accessibilityFaults(page)))
    await page.keyboard.press('Enter')
    await dialog.getByRole('cell', { name: '****4711' }).waitFor()
    expect((await ask('lab/m')).status).toBe(404)
    await button('Call it first').click()
    await dialog.getByText('Indeed.').waitFor()
    expect(lab.bill.at(-1)!.authorization).toBe(`Bearer ${key}`)
    await button('Put it in force').click()
    await page.getByRole('link', { name: 'lab' }).waitFor()
    expect((await ask('lab/m')).text).toContain('Indeed.')
    // Nothing of the key is left in the page once the dialog is closed.
    expect(await page.content()).not.toContain(key)

    await show(page, 'operator/providers/groq')
    await button('Change').click()
    await dialog.getByText('api_key ****6789 is set by weir.yaml:1, which wins: change it there.').waitFor()
    expect(await dialog.getByLabel('Key', { exact: true }).count()).toBe(0)
    await page.keyboard.press('Escape')

    await show(page, 'operator/models')
    await page.getByRole('group', { name: 'written' }).waitFor()
    expect(await page.getByRole('group', { name: 'written' }).getByRole('button').allInnerTexts()).toEqual([
      'What happens now',
      'Test',
      'Disable',
    ])
    await button('Disable written').click()
    await button('Put it in force').click()
    await page.getByText('not offered').waitFor()
    expect((await ask('written')).status).toBe(404)
    await button('Offer written again').click()
    await button('Put it in force').click()
    await dialog.waitFor({ state: 'detached' })
    expect((await ask('written')).status).toBe(200)
    await button('Add a route').click()
    await dialog.getByLabel('Name').fill('fast')
    await dialog.getByLabel('Members').fill('lab/m\nlab/none\nsim/echo 2')
    await dialog.getByLabel('Which is asked first').selectOption('order')
    await putInForce()
    expect((await ask('fast')).text).toContain('Indeed.')
    await button('What happens now with fast').click()
    await dialog.getByText('The first in the order of the route is asked first.').waitFor()
    expect(await dialog.locator('ol li').allInnerTexts()).toEqual([
      expect.stringMatching(/^1\. lab\/m\s+healthy/),
      expect.stringMatching(/^2\. sim\/echo/),
    ])
    await dialog.getByText('lab/none').waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await page.keyboard.press('Escape')

    await button('Take the latest change back').click()
    await page.getByText('Taken back:').waitFor()
    await page.getByText('models.fast').waitFor()
    expect((await ask('fast')).status).toBe(400)

    await show(page, 'operator/acts')
    for (const act of ['config.undo', 'config.change', 'config.test'])
      await page.getByText(act).first().waitFor()
    await page.goto('/console/models?q=lab%2Fm')
    await page.getByRole('row', { name: /lab\/m/ }).click()
    await dialog.getByText(/100 % · \d+ ms/).waitFor()
    for (const address of ['providers/lab', 'models'])
      faults.push(...(await faultsOf(page, `operator/${address}`)))
    await page.setViewportSize({ width: 360, height: 780 })
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360)
    expect({ faults, ...seen(operator) }).toEqual({ faults: [], ...clean })
  }, 90_000)
})
