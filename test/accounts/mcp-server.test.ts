// The registered MCP servers of an account, when the key that their secrets were encrypted with is gone.

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { McpServers } from '../../src/accounts/mcp-server.ts'
import { sealer } from '../../src/accounts/account.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

let dir: TempDir
let store: Store
let account: string

beforeEach(async () => {
  dir = tempDir('weir-mcp-servers-')
  store = await openStore(dir.path, { clock: () => noon })
  account = (await store.accounts.createAccount('anna@example.org')).id
})
afterEach(async () => {
  await store.close()
  dir.remove()
})

const secret = { headers: { authorization: 'Bearer river' } }
const withKey = (key: string) => new McpServers(store.mcpServers, sealer([key]), () => noon)

test('servers whose secrets cannot be read any more are listed, registered again and removed', async () => {
  const before = withKey('the first master key')
  const wiki = { name: 'wiki', url: 'https://wiki.example.com/mcp' }
  const open = { name: 'open', url: 'https://open.example.com/mcp', secrets: { headers: {} } }
  await before.put(account, { ...wiki, secrets: secret })
  await before.put(account, open)

  const after = withKey('another master key')
  expect(await after.list(account)).toMatchObject([open, { ...wiki, secrets: { headers: {} } }])
  await expect(after.find(account, 'wiki')).rejects.toThrow('cannot be read any more')
  expect(await after.find(account, 'open')).toMatchObject(open)
  await after.put(account, { ...wiki, secrets: secret })
  expect(await after.list(account)).toMatchObject([open, { ...wiki, secrets: secret }])
  expect(await after.remove(account, 'wiki')).toBe(true)
})

test.each(['https://user@mcp.example.com', 'https://:secret@mcp.example.com', 'ftp://mcp.example.com'])(
  'no server is registered at %s',
  async (url) => {
    const wanted = { name: 'wiki', url, secrets: { headers: {} } }
    await expect(withKey('a master key').put(account, wanted)).rejects.toMatchObject({
      code: 'invalid_request',
    })
  },
)
