// What lets somebody into an account or acts for it, counted: what a stranger may have left behind.

import { Link } from 'wouter'
import type { SessionView } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { Section } from '../ui/basics.tsx'

type Counts = NonNullable<SessionView['account']>['access']

const accessNames: Readonly<Record<keyof Counts, string>> = {
  password: 'Password',
  passkeys: 'Passkeys',
  identities: 'Single sign-on',
  sessions: 'Sessions',
  links: 'Unused sign-in links',
  keys: 'Keys',
  management_keys: 'Management keys',
  webhooks: 'Webhooks',
  mcp_servers: 'MCP servers',
  conversations: 'Conversations',
}

/** Where its owner can end it, beside the settings themselves. */
const pages: Partial<Record<keyof Counts, string>> = {
  keys: '/keys',
  management_keys: '/operator/keys',
  webhooks: '/settings/webhooks',
  mcp_servers: '/mcp',
  conversations: '/chat',
}

export function Access({ counts, whose }: { counts: Counts; whose: 'own' | 'another' }) {
  const some = Object.entries(counts).filter(([, count]) => count > 0) as [keyof Counts, number][]
  return (
    <Section title={t('What acts for the account')}>
      {whose === 'own' && (
        <p className="mb-3 text-muted">
          {t('A new password ends sessions and unused links, and nothing else. Remove what is not yours.')}
        </p>
      )}
      <ul className="card divide-y divide-line">
        {some.map(([kind, count]) => (
          <li key={kind} className="flex justify-between gap-3 px-4 py-2">
            {whose === 'own' && pages[kind] !== undefined ? (
              <Link href={pages[kind]} className="text-accent underline">
                {t(accessNames[kind])}
              </Link>
            ) : (
              <span>{t(accessNames[kind])}</span>
            )}
            <span className="tabular-nums">{count}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}
