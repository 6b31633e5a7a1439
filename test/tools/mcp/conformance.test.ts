// The conformance suite of the MCP project: its servers against our client, its client against /mcp. `bun run
// conformance` runs all of it.

import { expect, test } from 'bun:test'
import { serveWeir } from '../../support/serve-weir.ts'
import {
  allScenarios,
  clientConformance,
  clientScenarios,
  notAboutWeir,
  problem,
  serverConformance,
  serverScenarios,
  type Verdict,
} from './conformance.ts'

const expectConformance = (verdict: Verdict) =>
  expect(verdict).toEqual({ code: 0, printed: expect.not.stringMatching(problem) })

test.each([...clientScenarios.connection, 'auth/scope-step-up'])(
  'our client: %s',
  async (scenario) => expectConformance(await clientConformance(scenario)),
  30_000,
)

test.each([...serverScenarios])(
  'our server: %s',
  async (scenario) => {
    await using weir = await serveWeir({ config: 'local_servers: { discover: false }' })
    expectConformance(await serverConformance(weir, scenario))
  },
  30_000,
)

test('of each scenario of the suite it is known whether it is about Weir', async () => {
  const { connection, authorization } = clientScenarios
  const known = [...connection, ...authorization, ...serverScenarios, ...Object.keys(notAboutWeir)]
  expect((await allScenarios()).toSorted()).toEqual(known.toSorted())
}, 30_000)
