// The conformance suite of the MCP project: its servers against our client, its client against /mcp.

import { describe, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { inOwnNetwork } from '../../support/own-network.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const suite = resolve(
  import.meta.dir,
  '../../../node_modules/@modelcontextprotocol/conformance/dist/index.js',
)

async function conformance(args: readonly string[], isolated: boolean) {
  using folder = tempDir('weir-conformance-')
  const command = [process.execPath, suite, ...args]
  const child = Bun.spawn(isolated ? [...inOwnNetwork(command)] : command, {
    cwd: folder.path,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, printed: out + err }
}

describe('our client', () => {
  test.each(['initialize', 'tools_call', 'sse-retry'])(
    '%s',
    async (scenario) => {
      const client = `${process.execPath} ${resolve(import.meta.dir, 'conformance-child.ts')}`
      const { code, printed } = await conformance(
        ['client', '--command', client, '--scenario', scenario],
        true,
      )
      expect({ code, printed }).toEqual({ code: 0, printed: expect.not.stringMatching(/FAILURE|✗/) })
    },
    30_000,
  )
})

describe('our server', () => {
  test.each(['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection'])(
    '%s',
    async (scenario) => {
      await using weir = await serveWeir({ config: 'local_servers: { discover: false }' })
      // The suite has no key to send.
      const keyed = Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        fetch: (request) => {
          const headers = new Headers(request.headers)
          headers.set('authorization', `Bearer ${weir.key}`)
          return fetch(`${weir.origin}/mcp`, { method: request.method, headers, body: request.body })
        },
      })
      const url = `http://127.0.0.1:${keyed.port}/mcp`
      const { code, printed } = await conformance(['server', '--url', url, '--scenario', scenario], false)
      await keyed.stop(true)
      expect({ code, printed }).toEqual({ code: 0, printed: expect.not.stringMatching(/FAILURE|✗/) })
    },
    30_000,
  )
})
