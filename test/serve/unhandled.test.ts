import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { unhandled } from '../../src/serve/listen.ts'
import { tempDir } from '../support/tmp.ts'

test('a rejection that nothing handles is logged, and ends nobody else’s work', async () => {
  using folder = tempDir('weir-unhandled-')
  const script = folder.join('serve.ts')
  const source = (path: string) => JSON.stringify(resolve('src', path))
  await Bun.write(
    script,
    `import { createLog, standardErrorSink } from ${source('observe/log.ts')}
     import { outliveRejections } from ${source('serve/listen.ts')}
     const settings = { level: 'info', format: 'json', prompts: false }
     outliveRejections(createLog(settings, { sink: standardErrorSink(), clock: Date.now, secrets: [] }))
     const work = Bun.sleep(20).then(() => console.log('done'))
     void Promise.reject(new Error('of one call'))
     await work`,
  )
  const child = Bun.spawn([process.execPath, script], { stdout: 'pipe', stderr: 'pipe' })
  const [out, log] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect(out).toBe('done\n')
  expect(log).toContain(unhandled)
  expect(log).toContain('of one call')
  expect(await child.exited).toBe(0)
})
