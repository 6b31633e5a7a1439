// An operator makes a group, gives it a budget and credit, and adds a member, who makes a key in it.

import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { post, runJson } from '../support/call-gateway.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'
import { Walk } from './walk.ts'

describe.skipIf(browserPath === null)('groups in the console', () => {
  const console = openedConsole()
  const shots = process.env['SHOTS']
  const shoot = async (page: Page, name: string) => {
    if (shots !== undefined) await page.screenshot({ path: `${shots}/groups-${name}.png` })
  }

  test('an operator makes one with a budget and credit and invites people into it, who make its keys', async () => {
    const { weir } = console
    const operator = await console.visit()
    const { page } = operator
    await console.enter(page)
    const dialog = page.getByRole('dialog')
    const faults: string[] = []

    await page.goto('/console/operator')
    await page.getByRole('link', { name: 'Groups', exact: true }).waitFor()
    const making = await Walk.from(page, 'operator: a group with a budget and credit')
    await making.click(page.getByRole('link', { name: 'Groups', exact: true }))
    await page.getByText('There are no groups.').waitFor()
    await making.click(page.getByRole('button', { name: 'Make a group' }))
    await making.type(dialog.getByLabel('Name'), 'Water board')
    await making.type(dialog.getByLabel('Budget, US dollars'), '0.0002')
    await making.type(dialog.getByLabel('Time zone'), 'Asia/Kolkata')
    faults.push(...(await accessibilityFaults(page)))
    await making.click(dialog.getByRole('button', { name: 'Make the group' }))
    await making.click(page.getByRole('link', { name: 'Water board' }))
    await page.getByRole('heading', { level: 1, name: 'Water board' }).waitFor()
    await page.getByText('It has no members.').waitFor()
    const address = new URL(page.url()).pathname.replace('/console/', '')
    await making.click(page.getByRole('button', { name: 'Grant credit' }))
    await making.type(dialog.getByLabel('Amount, US dollars'), '3')
    await making.click(dialog.getByRole('button', { name: 'Grant' }))
    await page.getByText('$3.00').waitFor()
    expect(await making.end()).toEqual({ clicks: 6, entries: 4, pages: 2 })

    // A list as it is pasted from a spreadsheet; what is wrong with it is said with its line, and nobody is invited.
    const inviting = await Walk.from(page, 'operator: people invited from a list')
    await inviting.click(page.getByRole('link', { name: 'Accounts', exact: true }))
    await inviting.click(page.getByRole('button', { name: 'Invite', exact: true }))
    await inviting.click(dialog.getByRole('button', { name: 'Several people, from a list' }))
    const list = dialog.getByLabel('The list')
    const send = dialog.getByRole('button', { name: 'Invite', exact: true })
    await inviting.type(list, 'gita@example.org\tGita\tWater boards')
    await inviting.click(send)
    await dialog.getByRole('alert').getByText('line 1: there is no group "Water boards"').waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await shoot(page, 'list')
    await inviting.type(
      list,
      'gita@example.org\tGita\tWater board\nhari@example.org\tHari\tWater board\tadmin\t5',
    )
    await inviting.click(send)
    await dialog.getByText('hari@example.org').waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await shoot(page, 'invited')
    const download = page.waitForEvent('download')
    await inviting.click(dialog.getByRole('button', { name: 'Save as CSV' }))
    const saved = await Bun.file((await (await download).path())!).text()
    await inviting.click(dialog.getByRole('button', { name: 'Done' }))
    await page.getByRole('link', { name: 'hari@example.org' }).waitFor()
    expect(await inviting.end()).toEqual({ clicks: 7, entries: 2, pages: 1 })
    const links = saved
      .trim()
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(','))
    expect(links.map(([email, name]) => `${email} ${name}`)).toEqual([
      'gita@example.org Gita',
      'hari@example.org Hari',
    ])

    const member = await console.visit()
    const form = member.page.getByRole('dialog')
    await member.page.goto(links[0]![2]!)
    await member.page.getByRole('heading', { name: 'Welcome' }).waitFor()
    const calling = await Walk.from(member.page, 'member: a key of the group and a first call')
    await calling.click(member.page.getByRole('link', { name: 'Not now' }))
    await calling.click(member.page.getByRole('link', { name: 'Keys', exact: true }))
    await calling.click(member.page.getByRole('button', { name: 'Create a key' }).first())
    await calling.type(form.getByLabel('Name'), 'pump')
    await calling.choose(form.getByLabel('Group'), 1)
    faults.push(...(await accessibilityFaults(member.page)))
    await calling.click(form.getByRole('button', { name: 'Create the key' }))
    const key = await member.page.getByTestId('key').innerText()
    const chat = { model: 'sim/echo', max_tokens: 20, messages: [{ role: 'user', content: 'How deep?' }] }
    const answer = await post(weir, chat, { key: key.trim() })
    expect(answer.status).toBe(200)
    await member.page.getByText('The first call has arrived: sim/echo').waitFor()
    await calling.click(member.page.getByRole('button', { name: 'I have stored the key' }))
    expect(await calling.end()).toEqual({ clicks: 7, entries: 1, pages: 2 })
    await shoot(member.page, 'member')

    await page.goto(`/console/${address}`)
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
