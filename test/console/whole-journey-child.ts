// From an invitation to a revoked key, as one person goes through it in a browser. Run by whole-journey.test.ts in a
// network namespace of its own, where nothing can be reached but what listens in it. Prints what was seen as JSON.

import OpenAI, { type APIError } from 'openai'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'
import { launchBrowser } from '../support/browser.ts'
import { seen, visitor, withAuthenticator } from './visitor.ts'

const email = 'asha@example.org'

async function command(weir: RunningWeir, ...args: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await weir.command(...args, '--json')
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, string>
}

/** What a call by the official library came to: its text, or the code it was refused with. */
async function said(client: OpenAI): Promise<string> {
  const messages = [{ role: 'user' as const, content: 'Over the weir' }]
  return client.chat.completions.create({ model: 'sim/echo', messages }).then(
    ({ choices }) => choices[0]?.message.content ?? '',
    (thrown: APIError) => `${thrown.status} ${thrown.code}`,
  )
}

/** Whether this process can reach the world, by the code of the error. */
function outside(): Promise<string> {
  return fetch('http://192.0.2.1/', { signal: AbortSignal.timeout(2_000) }).then(
    () => 'reached',
    (thrown: { code?: string; name: string }) => thrown.code ?? thrown.name,
  )
}

await using weir = await startWeir({ config: 'local_servers: { discover: false }' })
const origin = `http://localhost:${weir.port}`
const browser = await launchBrowser()
try {
  const visit = await visitor(browser, origin)
  const { page } = visit
  await withAuthenticator(page)
  const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor()

  const { url } = await command(weir, 'accounts', 'invite', '--email', email)
  await command(weir, 'credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '2')
  await page.goto(url!)
  await heading('Welcome')
  const address = page.url()
  await page.getByRole('link', { name: 'Use a passkey instead' }).click()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('button', { name: /^Remove / }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await heading('Settings')

  await page.getByRole('link', { name: 'Keys', exact: true }).click()
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.getByLabel('Name').fill('laptop')
  await page.getByRole('button', { name: 'Limits, models, expiry' }).click()
  await page.getByLabel('Limit in US dollars').fill('0.000045')
  await page.getByRole('button', { name: 'Create the key' }).click()
  const apiKey = await page.getByTestId('key').innerText()
  const client = new OpenAI({ baseURL: weir.baseUrl, apiKey, maxRetries: 0 })
  const first = await said(client)
  await page.getByText('The first call has arrived: sim/echo').waitFor()
  await page.getByRole('button', { name: 'I have stored the key' }).click()

  const second = await said(client)
  await page.getByRole('link', { name: 'Requests', exact: true }).click()
  const refused = page.getByRole('row').filter({ hasText: 'key_limit_exceeded' })
  await refused.getByRole('link').first().click()
  await page.getByRole('heading', { name: 'Why it was refused' }).waitFor()
  const fired = await page.getByRole('listitem').filter({ hasText: 'refused here' }).innerText()
  const act = await page.getByText('What would change it:').locator('xpath=..').innerText()

  await page.getByRole('link', { name: 'Chat', exact: true }).click()
  await page.locator('button[aria-haspopup=dialog]').click()
  await page.getByRole('dialog').getByLabel('Search models').fill('sim/premium')
  await page.getByRole('dialog').getByRole('option', { name: 'sim/premium' }).click()
  await page.getByLabel('Message').fill('Hello over there')
  await page.keyboard.press('Enter')
  const cost = page.getByTestId('cost')
  await cost.getByText('Welcome').waitFor()
  const paid = await cost.innerText()

  await page.getByRole('link', { name: 'Usage', exact: true }).click()
  const used = page.getByRole('row').filter({ hasText: 'sim/' })
  await used.first().waitFor()
  const words = (row: string) =>
    row
      .split('\t')
      .slice(0, 2)
      .map((cell) => cell.trim())
      .join(' ')
  const usage = (await used.allInnerTexts()).map(words).toSorted()

  await page.getByRole('link', { name: 'Keys', exact: true }).click()
  await page.getByRole('button', { name: 'Revoke laptop' }).click()
  await page.getByRole('button', { name: 'Revoke the key' }).click()
  const effect = await page.getByText('It took effect at').innerText()
  const revokedAt = performance.now()
  const last = await said(client)
  const refusedAfterMs = performance.now() - revokedAt

  const observed = {
    address: address.replace(origin, ''),
    first,
    second,
    fired,
    act,
    paid,
    usage,
    effect,
    last,
  }
  console.log(JSON.stringify({ ...observed, refusedAfterMs, outside: await outside(), ...seen(visit) }))
} finally {
  await browser.close()
}
