// What ends a gateway, what does not, and what it says when it cannot listen.

import { expect, test } from 'bun:test'
import { listenFault } from '../../src/serve/listen-fault.ts'
import { eventually, post } from '../support/call-gateway.ts'
import { startWeir } from '../support/run-weir.ts'

test('a terminal that is closed does not end the gateway', async () => {
  await using weir = await startWeir()
  process.kill(weir.pid, 'SIGHUP')
  const noticed = await eventually(
    async () => weir.output(),
    (text) => text.includes('SIGHUP'),
  )
  expect(noticed).toContain('SIGHUP changes nothing')
  const answer = await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Still here?' }] })
  expect(answer).toMatchObject({ status: 200, content: 'Still here?' })
  expect(await weir.stop()).toBe(0)
}, 30_000)

const thrown = (code: string, message: string) => Object.assign(new Error(message), { code })

test.each([
  [
    80,
    thrown('EACCES', 'permission denied 0.0.0.0:80'),
    /0\.0\.0\.0:80 .*not permitted: ports below 1024 need/,
  ],
  [8787, thrown('EACCES', 'permission denied 0.0.0.0:8787'), /not permitted$/],
  [80, thrown('EADDRINUSE', 'Failed to start server.'), /another program uses the port/],
])('that port %p cannot be listened on is explained', (port, cause, words) => {
  expect(listenFault({ host: '0.0.0.0', port }, cause).message).toMatch(words)
})
