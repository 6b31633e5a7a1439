// `bun run conformance`: every scenario of the MCP conformance suite that is about Weir must pass, without a warning.

import { serveWeir } from '../../support/serve-weir.ts'
import {
  clientConformance,
  clientScenarios,
  notAboutWeir,
  problem,
  serverConformance,
  serverScenarios,
  type Verdict,
} from './conformance.ts'

let [passed, run] = [0, 0]

function count(scenario: string, { code, printed }: Verdict): void {
  const isGood = code === 0 && !problem.test(printed)
  run++
  if (isGood) passed++
  process.stdout.write(`${isGood ? 'passed' : 'FAILED'}  ${scenario}\n${isGood ? '' : printed}`)
}

for (const scenario of [...clientScenarios.connection, ...clientScenarios.authorization])
  count(`client ${scenario}`, await clientConformance(scenario))

const weir = await serveWeir({ config: 'local_servers: { discover: false }' })
for (const scenario of serverScenarios) count(`server ${scenario}`, await serverConformance(weir, scenario))
await weir.stop()

for (const [scenario, why] of Object.entries(notAboutWeir))
  process.stdout.write(`left out  ${scenario}: ${why}\n`)
process.stdout.write(`${passed} of ${run} scenarios passed\n`)
process.exit(passed === run ? 0 : 1)
