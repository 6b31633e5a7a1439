// MCP servers in the console: registered, tried and removed; their tools in the chat, each call with its reader's
// permission; a server behind OAuth, signed in to in the browser.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { mcpServer, type TestMcpServer, text } from '../support/mcp-server.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { browserPath } from '../support/browser.ts'
import { accessibilityFaults, clean, pressInVain, seen, say } from './visitor.ts'

const token = 'token-of-the-files'
const message = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }

let files: TestMcpServer
/** Behind OAuth: its authorisation server asks nobody. The browser finds no host but localhost. */
let guarded: TestMcpServer
beforeAll(() => {
  files = mcpServer({
    tools: [{ name: 'read_note', description: 'Reads a note.', inputSchema: message }],
    call: () => text('the words of the note'),
  })
  guarded = mcpServer({ tools: [{ name: 'secret', inputSchema: message }], http: guard })
})
afterAll(() => {
  files[Symbol.dispose]()
  guarded[Symbol.dispose]()
})

async function guard(request: Request): Promise<Response | undefined> {
  const { pathname, searchParams } = new URL(request.url)
  const origin = `http://localhost:${new URL(request.url).port}`
  const endpoints = {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
  }
  if (pathname === '/.well-known/oauth-authorization-server')
    return Response.json({
      ...endpoints,
      registration_endpoint: `${origin}/register`,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
    })
  if (pathname === '/register')
    return Response.json({ ...((await request.json()) as object), client_id: 'client' }, { status: 201 })
  if (pathname === '/authorize') {
    const back = new URL(searchParams.get('redirect_uri')!)
    back.search = String(new URLSearchParams({ code: 'code', state: searchParams.get('state')! }))
    return new Response(null, { status: 302, headers: { location: back.href } })
  }
  if (pathname === '/token') return Response.json({ access_token: 'given', token_type: 'Bearer' })
  if (request.headers.get('authorization') === 'Bearer given') return undefined
  return new Response(null, { status: pathname === '/mcp' ? 401 : 404 })
}

async function pick(page: Page, model: string): Promise<void> {
  await page.locator('button[aria-haspopup=dialog]').click()
  await page.getByRole('dialog').getByLabel('Search models').fill(model)
  await page.getByRole('dialog').getByRole('option', { name: model }).click()
}

describe.skipIf(browserPath === null)('MCP servers', () => {
  const console = openedConsole(() => ({
    config: `local_servers: { discover: false }
secrets: { master_key: master-key-0123456789-abcdefghijklm }
egress: { allow_hosts: ['${files.host}', 'localhost'] }
`,
  }))

  test('one is registered, tried, used in the chat with permission, and removed', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/mcp')
    await page.getByText('There are no servers.').waitFor()
    await page.getByRole('button', { name: 'Add a server' }).click()
    await page.getByLabel('Name').fill('my files')
    await page.getByLabel('Address').fill(files.url)
    await page.getByLabel('Authentication').selectOption('token')
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Add it' }).click()
    await page.getByText(/takes up to 64 letters/).waitFor()
    await page.getByLabel('Name').fill('files')
    await page.getByRole('button', { name: 'Add it' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await page.content()).not.toContain(token)
    await page.getByRole('button', { name: 'Test' }).click()
    await page.getByText('It answers. Tools: 1').waitFor()
    await page.getByRole('list', { name: 'Tools' }).getByText('read_note').waitFor()
    expect(files.requests.at(-1)!.headers.get('authorization')).toBe(`Bearer ${token}`)
    const faults = [...(await faultsOf(page, 'mcp'))]
    await page.setViewportSize({ width: 1280, height: 860 })

    await page.goto('/console/chat')
    await pick(page, 'sim/tools')
    await page.getByRole('button', { name: 'Tools', exact: true }).click()
    await page.getByLabel('files').check()
    faults.push(...(await accessibilityFaults(page)))
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Tools: 1' }).waitFor()
    await say(page, 'What is in the note?')
    const permission = page.getByRole('group', { name: 'Permission for read_note' })
    await permission.getByText('The model wants to call a tool of files:').waitFor()
    await page.waitForURL(/\/chat\/conv_/)
    faults.push(...(await accessibilityFaults(page)))
    expect(files.count('tools/call')).toBe(0)
    // It waits, also for somebody who comes back later.
    await page.reload()
    await permission.getByRole('button', { name: 'Allow once' }).click()
    await permission.getByText('allowed once').waitFor()
    await page.locator('article .prose').getByText('the words of the note').waitFor()
    await page.locator('summary').filter({ hasText: 'Tool read_note' }).waitFor()
    expect(files.count('tools/call')).toBe(1)
    await page.getByTestId('cost').nth(1).waitFor()
    await page.reload()
    await permission.getByText('allowed once').waitFor()
    expect(await permission.getByRole('button').count()).toBe(0)

    await pick(page, 'sim/tools')
    await page.getByRole('button', { name: 'Tools', exact: true }).click()
    await page.getByLabel('files').check()
    await page.keyboard.press('Escape')
    await say(page, 'And now?')
    await permission.nth(1).getByRole('button', { name: 'Deny' }).click()
    await permission.nth(1).getByText('denied').waitFor()
    await page.getByTestId('cost').nth(3).waitFor()
    expect(files.count('tools/call')).toBe(1)
    faults.push(...(await accessibilityFaults(page)))

    await page.getByRole('button', { name: 'Rename' }).click()
    await page.getByLabel('Title').fill('Of notes')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { level: 1, name: 'Of notes' }).waitFor()
    await page.getByRole('navigation', { name: 'Conversations' }).getByText('Of notes').waitFor()

    await page.goto('/console/mcp')
    await page.getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('button', { name: 'Remove the server' }).click()
    await page.getByText('There are no servers.').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 90_000)

  test('one behind OAuth is signed in to in the browser', async () => {
    const { page, complaints, leave } = await console.visit({ width: 390, theme: 'dark' })
    await console.enter(page)
    await page.goto('/console/mcp')
    await page.getByRole('button', { name: 'Add a server' }).click()
    await page.getByLabel('Name').fill('guarded')
    await page.getByLabel('Address').fill(guarded.url.replace('127.0.0.1', 'localhost'))
    await page.getByRole('button', { name: 'Add it' }).click()
    await page.getByRole('button', { name: 'Test' }).click()
    await page.getByText('needs a sign-in').waitFor()
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('The server is authorised.').waitFor()
    await page.getByText('signed in', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Test' }).click()
    await page.getByText('It answers. Tools: 1').waitFor()
    expect([await accessibilityFaults(page), complaints]).toEqual([[], []])
    await leave()
  }, 60_000)

  test('management keys are made once by operators, shown once and revoked', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator/keys')
    await page.getByRole('button', { name: 'Make a key' }).click()
    await page.getByLabel('Name').fill('billing job')
    await page.getByLabel('From networks').fill('nowhere')
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByText('networks.0 must be an address').waitFor()
    await page.getByLabel('From networks').fill('127.0.0.0/8')
    await page.getByRole('button', { name: 'Make the key' }).click()
    const key = await page.getByLabel('Key', { exact: true }).innerText()
    await page.getByRole('button', { name: 'I have stored the key' }).click()
    expect(await page.content()).not.toContain(key)
    const asked = () =>
      fetch(`${console.weir.origin}/admin/v1/accounts`, { headers: { authorization: `Bearer ${key}` } })
    expect((await asked()).status).toBe(200)
    await page.getByRole('button', { name: 'Revoke billing job' }).click()
    const dialog = page.getByRole('dialog', { name: 'Revoke billing job' })
    await dialog.getByRole('button', { name: 'Close' }).click()
    expect((await asked()).status).toBe(200)
    await page.getByRole('button', { name: 'Revoke billing job' }).click()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('revoked', { exact: true }).filter({ visible: true }).waitFor()
    expect((await asked()).status).toBe(401)
    expect(await accessibilityFaults(page)).toEqual([])

    // One whose answer was lost is not made again, and is listed.
    await page.getByRole('button', { name: 'Make a key' }).click()
    await page.getByLabel('Name').fill('made once')
    const path = '**/console/api/admin/management-keys'
    const make = page.getByRole('button', { name: 'Make the key' })
    await pressInVain(page, make, path)
    await make.click()
    await page.getByText('This request has made the management key "made once" before.').waitFor()
    const rows = page.getByRole('row', { includeHidden: true }).filter({ hasText: 'made once' })
    await rows.first().waitFor({ state: 'attached' })
    expect(await rows.count()).toBe(1)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)
})
