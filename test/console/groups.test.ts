// An operator makes a group, gives it a budget and credit, and adds a member, who makes a key in it.

import { describe, expect, test } from 'bun:test'
import { post, runJson } from '../support/call-gateway.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('groups in the console', () => {
  const console = openedConsole()

  test('are made by an operator, with a budget, credit and members, whose keys spend within it', async () => {
    const { weir } = console
    expect((await weir.command('accounts', 'create', '--email', 'gita@example.org')).code).toBe(0)
    const operator = await console.visit()
    const { page } = operator
    await console.enter(page)
    await page.goto('/console/operator/groups')
    await page.getByText('There are no groups.').waitFor()
    await page.getByRole('button', { name: 'Make a group' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('Water board')
    await dialog.getByLabel('Budget, US dollars').fill('0.0002')
    await dialog.getByLabel('Time zone').fill('Asia/Kolkata')
    const faults = [...(await accessibilityFaults(page))]
    await dialog.getByRole('button', { name: 'Make the group' }).click()
    await page.getByRole('link', { name: 'Water board' }).click()
    await page.getByRole('heading', { level: 1, name: 'Water board' }).waitFor()
    await page.getByText('It has no members.').waitFor()
    await page.getByRole('button', { name: 'Add a member' }).click()
    await dialog.getByLabel('E-mail').fill('gita@example.org')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('link', { name: 'gita@example.org' }).waitFor()
    await page.getByRole('button', { name: 'Grant credit' }).click()
    await dialog.getByLabel('Amount, US dollars').fill('3')
    await dialog.getByRole('button', { name: 'Grant' }).click()
    await page.getByText('$3.00').waitFor()
    const address = new URL(page.url()).pathname.replace('/console/', '')

    const member = await console.visit()
    await console.enter(member.page, 'gita@example.org')
    await member.page.goto('/console/keys')
    await member.page.getByRole('button', { name: 'Create a key' }).first().click()
    const making = member.page.getByRole('dialog')
    await making.getByLabel('Name').fill('pump')
    await making.getByLabel('Group').selectOption({ index: 1 })
    await making.getByRole('button', { name: 'Create the key' }).click()
    await member.page.getByRole('heading', { name: 'Your new key' }).waitFor()
    const key = (await making.locator('code, pre').allInnerTexts()).find((text) =>
      text.startsWith('sk-weir-'),
    )!
    const chat = { model: 'sim/echo', max_tokens: 20, messages: [{ role: 'user', content: 'How deep?' }] }
    expect((await post(weir, chat, { key: key.trim() })).status).toBe(200)

    await page.reload()
    await page.getByRole('meter', { name: 'Spent of the budget' }).waitFor()
    faults.push(...(await faultsOf(page, address)), ...(await faultsOf(page, 'operator/groups')))
    expect({ faults, ...seen(operator) }).toEqual({ faults: [], ...clean })
    expect(seen(member)).toEqual(clean)
    for (const { leave } of [operator, member]) await leave()
  }, 60_000)

  test('are managed by their admins: members and their budgets', async () => {
    const { weir } = console
    for (const email of ['hema@example.org', 'ila@example.org'])
      expect((await weir.command('accounts', 'create', '--email', email)).code).toBe(0)
    for (const command of [
      ['create', '--name', 'Canal office', '--budget-usd', '50'],
      ['create', '--name', 'Sluices', '--parent', 'Canal office'],
      ['add', 'Canal office', '--account', 'hema@example.org', '--role', 'admin'],
    ])
      expect((await weir.command('groups', ...command)).code).toBe(0)
    const visit = await console.visit()
    const { page } = visit
    await console.signIn(page, 'hema@example.org')
    await page.getByRole('link', { name: 'My groups' }).click()
    await page.getByRole('link', { name: 'Canal office' }).click()
    await page.getByRole('button', { name: 'Add a member' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('E-mail').fill('ila@example.org')
    await dialog.getByLabel('Budget, US dollars').fill('5')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('button', { name: 'Change ila@example.org' }).click()
    await dialog.getByLabel('Budget, US dollars').fill('7')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('row', { name: 'ila@example.org' }).getByText('$7.00', { exact: true }).waitFor()
    const address = new URL(page.url()).pathname.replace('/console/', '')
    const faults = [...(await faultsOf(page, address)), ...(await faultsOf(page, 'groups'))]
    await page.goto(`/console/${address}`)
    await page.getByRole('link', { name: 'Sluices' }).click()
    await page.getByText('It has no members.').waitFor()
    await page.goBack()
    await page.getByRole('button', { name: 'Remove ila@example.org' }).click()
    await dialog.getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('row', { name: 'ila@example.org' }).waitFor({ state: 'detached' })
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)

  test('on a telephone are no wider than the screen', async () => {
    const visit = await console.visit({ width: 360 })
    await console.enter(visit.page)
    const name = 'g'.repeat(100)
    const budget = ['--budget-usd', '1234567.123456789']
    const { id } = await runJson(console.weir, 'groups', 'create', '--name', name, ...budget)
    const email = `${'w'.repeat(60)}@example.org`
    await runJson(console.weir, 'accounts', 'invite', '--email', email)
    await runJson(console.weir, 'groups', 'add', name, '--account', email, '--role', 'admin', ...budget)
    const faults = await faultsOf(visit.page, 'operator/groups')
    const ofMembers = await faultsOf(visit.page, `operator/groups/${String(id)}`)
    await visit.context.clearCookies()
    await console.enter(visit.page, email)
    const ofMember = [...(await faultsOf(visit.page, 'groups')), ...(await faultsOf(visit.page, 'settings'))]
    const all = [...faults, ...ofMembers, ...ofMember]
    expect({ all, ...seen(visit) }).toEqual({ all: [], ...clean })
    await visit.leave()
  }, 60_000)
})
