// The hook of the guide does what its page says.

import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { guidePage } from '../../src/guide/pages.ts'
import { signatureHeaders } from '../../src/payments/processor.ts'
import { until } from '../chat/lab.ts'
import { freePort } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'

test('it takes what is signed with its secret, and denies what is not to be spoken of', async () => {
  using folder = tempDir()
  const port = await freePort()
  const [, program] = /```js shown\n([\s\S]*?)```/.exec(guidePage('guardrails')!.text)!
  const [secret] = /whsec_[A-Za-z0-9+/=]+/.exec(program!)!
  writeFileSync(folder.join('hook.mjs'), program!.replace('9000', String(port)))
  const child = Bun.spawn([process.execPath, folder.join('hook.mjs')])
  const ask = (text: string, key: string) => {
    const body = JSON.stringify({ event: 'request', document: { parts: [{ id: 'a', text }] } })
    const headers = signatureHeaders(key, 'msg_1', Date.now(), body)
    return fetch(`http://127.0.0.1:${port}/check`, { method: 'POST', headers, body })
  }
  try {
    await until(
      () =>
        ask('Hello', secret).then(
          () => true,
          () => false,
        ),
      Boolean,
    )
    expect(await (await ask('Hello', secret)).json()).toEqual({ decision: 'allow' })
    expect(await (await ask('About Project Heron', secret)).json()).toMatchObject({ decision: 'deny' })
    expect((await ask('Hello', 'another secret of its own')).status).toBe(401)
  } finally {
    child.kill()
    await child.exited
  }
})
