// The settings that a process can only have from its start.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { tempDir } from '../support/tmp.ts'

const compileAfter = 'BUN_JSC_thresholdForJITAfterWarmUp'

test('a relaunched process has its settings once, and those of the operator come first', async () => {
  using folder = tempDir('weir-relaunch-')
  const script = folder.join('start.ts')
  await Bun.write(
    script,
    `import { raiseFetchLimit } from ${JSON.stringify(resolve('src/serve/relaunch.ts'))}
     raiseFetchLimit(process.env)
     console.log(JSON.stringify(process.env))`,
  )
  const start = async (env: Record<string, string>) => {
    const child = Bun.spawn([process.execPath, script], { env, stdout: 'pipe' })
    return JSON.parse(await new Response(child.stdout).text()) as Record<string, string | undefined>
  }

  const plain = await start({ GIVEN: 'kept' })
  expect(plain).toMatchObject({
    GIVEN: 'kept',
    BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
    [compileAfter]: '5000',
  })
  expect(plain['BUN_OPTIONS']).toContain('--max-http-header-size')

  const own = await start({ [compileAfter]: '700', UV_THREADPOOL_SIZE: '9', BUN_OPTIONS: '--no-orphans' })
  expect(own).toMatchObject({ [compileAfter]: '700', UV_THREADPOOL_SIZE: '9' })
  expect(own['BUN_OPTIONS']).toStartWith('--no-orphans ')

  expect(await start({ BUN_CONFIG_MAX_HTTP_REQUESTS: '300' })).not.toHaveProperty(compileAfter)
})
