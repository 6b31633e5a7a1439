// Sign-in from configuration: who may sign in, from where, and what they are granted.

import { fetchBounded } from '../../transport/bounded-body.ts'
import { SignInLimits } from '../../accounts/identity/sign-in-limits.ts'
import { Identities } from '../../accounts/identity/identities.ts'
import { type Mailer, SmtpMailer } from '../../accounts/identity/mail.ts'
import { Oidc, type OidcGroups, type OidcParts } from '../../accounts/identity/oidc.ts'
import { Passkeys } from '../../accounts/identity/passkeys.ts'
import { Passwords } from '../../accounts/identity/password.ts'
import { type Config, newcomerAllowances, signInWays, signUpPolicy } from '../../config/config.ts'
import { Allowances, grantMonthly, MonthlyCredit, Welcomes } from '../../credits/calendar.ts'
import { usd } from '../../credits/money.ts'
import { FreeCredit, type IdentityServices } from '../../http/parts.ts'
import { clientAddress, saidAddress, type Site } from '../../http/intake/caller.ts'
import { baseUrlOf, consoleOrigin } from '../banner.ts'
import { perConfig } from './catalog.ts'
import type { GatewayProcess } from './process.ts'

/** The largest answer of a single sign-on: its keys, or the groups of somebody who is in thousands. */
const mostIssuerBytes = 4 * 1024 * 1024

export function identityParts(parts: GatewayProcess): IdentityServices {
  const { config, live, store, log, clock, server } = parts
  const { signUp, unverified } = signUpPolicy(config)
  const site = siteOf(config, server)
  const ledgerTime = () => store.ledger.now()
  const cap = usd(config.credits.welcome_daily_cap_usd)
  const monthlyCredit = new MonthlyCredit((account) => grantMonthly(store.ledger, account), ledgerTime)
  const newcomers = newcomerAllowances(config)
  const ways = signInWays(config)
  void warnOfMissingGroup(store, newcomers.group, log)
  const freeCredit = new FreeCredit(
    new Allowances({
      register: store.identities,
      ledger: store.ledger,
      dailyCap: usd(config.credits.allowance_daily_cap_usd),
      now: ledgerTime,
      capped: () =>
        log.warn('the daily allowance of today is used up: accounts get none until midnight UTC', {
          setting: 'credits.allowance_daily_cap_usd',
        }),
    }),
    new Welcomes(store.identities, store.ledger, cap, ledgerTime),
    monthlyCredit,
    unverified === 'allow',
  )
  const mailer = mailerOf(live)
  const identities = new Identities({
    accounts: store.accounts,
    identities: store.identities,
    passwords: new Passwords(),
    attempts: new SignInLimits(attemptLimits(config), clock, store.limits),
    ways,
    get mailer() {
      return mailer()
    },
    signUp,
    unverified,
    sessionIdleMs: config.accounts.session_idle_ms,
    now: clock,
    consoleUrl: () => `${site.url()}/console`,
    admitted: (account) => {
      freeCredit
        .ensure(account)
        .catch((error: unknown) => log.warn('an account gets its free credit later', { error }))
    },
    failed: (message, error) => log.warn(message, { error }),
  })
  const passkeys = new Passkeys({
    accounts: store.accounts,
    identities: store.identities,
    now: clock,
    allowed: ways.passkeys,
    url: site.url,
    origins: site.origins,
  })
  const { identities: identityStore, acts } = store
  const oidc = oidcOf(config, {
    accounts: store.accounts,
    identities: identityStore,
    acts,
    groups: store.groups,
    isProvisioned: async (account) => (await store.provisioning.find(account)) !== undefined,
    newcomers,
    now: clock,
    redirectUri: () => `${site.url()}/console/api/oidc/callback`,
    note: (message, facts) => log.info(message, facts),
    send: (address, options) => fetchBounded(address, options, mostIssuerBytes),
  })
  const { provisioning } = store
  return {
    provisioning,
    freeCredit,
    monthlyCredit,
    newcomers,
    site,
    identities,
    identityStore,
    passkeys,
    oidc,
    acts,
  }
}

/** Who sends mail by the configuration in force; undefined without a mail server. */
export function mailerOf(live: GatewayProcess['live']): () => Mailer | undefined {
  return perConfig(live, (config) => mailerIn(config))
}

export function mailerIn({
  mail: { smtp_url: url, from, timeout_ms: timeoutMs },
  brand: { name, support },
}: Pick<Config, 'mail' | 'brand'>): Mailer | undefined {
  if (url === undefined || from === undefined) return undefined
  const sender = name === undefined ? null : { name, support: support ?? null }
  return new SmtpMailer({ url, from, timeoutMs, sender })
}

/** Accounts are opened all the same where their group is gone: the log says so at the start. */
async function warnOfMissingGroup(
  { groups }: GatewayProcess['store'],
  group: string | undefined,
  log: GatewayProcess['log'],
): Promise<void> {
  try {
    if (group === undefined || (await groups.findGroup(group)) !== undefined) return
    log.warn('new accounts become members of no group: the one of the setting is not there', {
      setting: 'accounts.group',
      group,
    })
  } catch (error) {
    log.warn('the group of new accounts could not be looked up', { error })
  }
}

function oidcOf({ accounts }: Config, parts: Omit<OidcParts, 'settings'>): Oidc | undefined {
  const { issuer, client_id: clientId, client_secret: clientSecret, label } = accounts.oidc
  const {
    allowed_domains: allowedDomains,
    auto_create: autoCreate,
    assume_verified: assumeVerified,
    operator_claim: operatorClaim,
    scopes,
  } = accounts.oidc
  const { sign_in: ways } = accounts
  if (issuer === undefined || clientId === undefined || !ways.includes('oidc')) return undefined
  const asked = { issuer, clientId, clientSecret, label, scopes }
  const { claim, map } = accounts.oidc.groups
  const groups = claim === undefined ? undefined : { claim, map: groupMap(map) }
  const isAlone = ways.every((way) => way === 'oidc')
  const policy = { allowedDomains, assumeVerified, autoCreate, operatorClaim, groups, isAlone }
  return new Oidc({ ...parts, settings: { ...asked, ...policy } })
}

/** Each value of the claim, the group that it stands for, and the role in it where one is named. */
function groupMap(map: Config['accounts']['oidc']['groups']['map']): OidcGroups['map'] {
  return Object.entries(map).map(([value, of]) => {
    const { group, role } = typeof of === 'string' ? { group: of, role: undefined } : of
    return { value, group, role }
  })
}

/** The address of the gateway, and of its clients. */
export function siteOf({ server: settings }: Config, server: GatewayProcess['server']): Site {
  const { host, public_url: publicUrl, trusted_proxies: trusted } = settings
  const port = () => server()?.port ?? settings.port
  const listening = () => new URL(baseUrlOf(host, port())).origin
  const url = () => publicUrl ?? consoleOrigin(host, port())
  return {
    url,
    // Without a public address pages may use either name of this machine: no one else has this port.
    origins: () => new Set(publicUrl === undefined ? [url(), listening()] : [new URL(publicUrl).origin]),
    secure: publicUrl?.startsWith('https:') ?? false,
    addressOf: (request) => {
      const said = saidAddress(request)
      if (said !== undefined) return said
      const peer = server()?.requestIP(request)?.address ?? ''
      return clientAddress(peer, request.headers.get('x-forwarded-for'), trusted)
    },
  }
}

function attemptLimits({ accounts }: Config) {
  return {
    signInFailures: accounts.sign_in_failures,
    signInFailuresPerNetwork: accounts.sign_in_failures_per_network,
    signUpsPerNetwork: accounts.sign_ups_per_network,
    signUps: accounts.sign_ups,
    mailsPerAddress: accounts.mails_per_address,
  }
}
