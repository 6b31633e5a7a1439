// Settings of accounts: sign-up, sign-in, mail, and free credit.

import { z } from 'zod'
import { groupRoles } from '../accounts/group.ts'
import { isNetwork } from '../accounts/identity/sign-in-limits.ts'
import { parseCreditLine } from '../credits/wallet.ts'
import { usd } from '../credits/money.ts'
import { baseUrl, day, grantedUsd, milliseconds, note, secret, section, usdAmount, whole } from './fields.ts'

/** An address, or a range of addresses as CIDR; without short forms, which programs read differently. */
export const networkRange = z.string().refine(isNetwork, {
  error: 'must be a whole address or a range such as 10.0.0.0/8 or 2001:db8::/32',
})

const groupId = z.string().regex(/^grp_[0-9a-f]{18}$/, 'must be the id of a group (weir groups list)')

export const accountSettings = section({
  sign_up: note(
    z.enum(['closed', 'invite', 'open']).optional(),
    'Who may open an account: nobody, whoever an operator invites, or everybody (open while Weir listens on loopback ' +
      'and server.public_url is unset, else invite)',
  ),
  unverified: note(
    z.enum(['allow', 'deny']).optional(),
    'Whether accounts whose address nobody has proven get the welcome and the daily credit (allow while Weir listens ' +
      'on loopback and server.public_url is unset, else deny)',
  ),
  sign_in: note(
    z
      .array(z.enum(['password', 'passkey', 'oidc']))
      .min(1)
      .default(['password', 'passkey', 'oidc']),
    'How people sign in. With oidc alone there are no passwords, passkeys and mailed links; links of the command line ' +
      'still let operators in',
  ),
  share_links: note(
    z.boolean().default(false),
    'Whether people may share a conversation of the chat by a link, which shows it to whoever has the link',
  ),
  session_idle_ms: milliseconds('How long a session lasts without being used', 30 * day, 60_000, 365 * day),
  sign_in_failures: whole(
    'Wrong passwords for one address from one network in 15 minutes, before each next try has to wait longer',
    5,
    1,
    1_000,
  ),
  sign_in_failures_per_network: whole(
    'Wrong passwords from one network in 15 minutes, for whatever addresses',
    50,
    1,
    100_000,
  ),
  sign_ups_per_network: whole('Accounts opened from one network in an hour', 5, 1, 100_000),
  sign_ups: whole('Accounts opened in ten minutes', 50, 1, 1_000_000),
  mails_per_address: whole('Mails to one address in an hour', 3, 1, 1_000),
  monthly_credit_usd: note(
    grantedUsd.default('0'),
    'Purchased credit that ends with its month, for each new account that an operator or the single sign-on opens: ' +
      'in each month, with its first call or visit; "0" for none',
  ),
  credit_line: note(
    z
      .string('must be written as a string, "20"')
      .refine((text) => parseCreditLine(text) !== undefined, {
        error: 'must be US dollars such as "20", unlimited or none',
      })
      .default('none'),
    'How much such a new account may owe: US dollars such as "20", unlimited or none',
  ),
  group: note(groupId.optional(), 'The group that such a new account becomes a member of, by its id'),
  oidc: section({
    issuer: note(
      baseUrl.optional(),
      'The OpenID Connect issuer whose users may sign in, such as https://id.example.org/realms/staff',
    ),
    client_id: note(z.string().min(1).optional(), 'The id of this gateway at the issuer'),
    client_secret: note(
      secret.optional(),
      'Its secret, where it has one: text, ${ENVIRONMENT_NAME} or file:/path',
      { secret: true },
    ),
    label: note(z.string().min(1).max(60).default('single sign-on'), 'What the sign-in button says'),
    scopes: note(
      z
        .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'must be a scope, such as groups'))
        .default(['openid', 'email', 'profile']),
      'What the issuer is asked for; openid is always among it',
    ),
    assume_verified: note(
      z.boolean().default(false),
      'Whether addresses count as verified where the issuer says nothing of it (no email_verified); only for an ' +
        'issuer whose users cannot choose their address',
    ),
    allowed_domains: note(
      z.array(z.string().regex(/^[a-z0-9.-]+$/, 'must be a domain in small letters')).default([]),
      'Only verified addresses of these domains may open an account; an empty list is all',
    ),
    auto_create: note(
      z.boolean().default(true),
      'Whether a first sign-in opens an account, whatever accounts.sign_up says',
    ),
    operator_claim: note(
      z
        .string()
        .regex(
          /^[^=]+=.+$/,
          'must be claim=value, such as groups=weir-operators or realm_access.roles=weir-operators',
        )
        .optional(),
      'The claim that makes an operator, as claim=value; a list holds the value, and a claim within others is named by ' +
        'its path (realm_access.roles=weir-operators)',
    ),
    groups: section({
      claim: note(
        z.string().min(1).max(256).optional(),
        'The claim that says in which groups somebody is: a name, or a path such as realm_access.roles',
      ),
      map: note(
        z
          .record(
            z.string().min(1).max(256),
            z.union([groupId, z.strictObject({ group: groupId, role: z.enum(groupRoles).optional() })]),
          )
          .default({}),
        'For each value of the claim the group that it stands for, {engineers: grp_…}, or with a role in it, {leads: ' +
          '{group: grp_…, role: admin}}. At each sign-in people become members of those that the claim names, and leave ' +
          'the others of the map',
      ),
    }),
  }),
})

export const keySettings = section({
  freeze_after_networks: whole(
    'From how many networks (/24, /48) a key may be used in an hour before it is frozen: it is paused, and its owner told. ' +
      'Keys that name their networks are not counted. 0 for any number',
    0,
    0,
    1_000,
  ),
})

export const mailSettings = section({
  smtp_url: note(
    z
      .string()
      .refine((text) => /^smtps?:$/.test(URL.parse(text)?.protocol ?? ''), {
        error: 'must be an address such as smtps://user:password@mail.example.org:465',
      })
      .optional(),
    'The mail server; without one links are printed by weir accounts link and weir accounts invite',
    { secret: true },
  ),
  from: note(z.string().min(3).optional(), 'The sender of mails, such as Weir <weir@example.org>'),
  timeout_ms: milliseconds('How long the mail server may take', 15_000, 100, 300_000),
})

export const creditSettings = section({
  welcome_daily_cap_usd: usdAmount('The most welcome credit that all new accounts of a UTC day get', '50'),
  allowance_daily_cap_usd: usdAmount(
    'The most daily allowance (0.20 US dollars a person) that all accounts of a UTC day get',
    '200',
  ),
  low_balance_usd: usdAmount(
    'Free purchased credit below this is reported as low, in the console and to webhooks; "0" never',
    '1',
  ),
  expiring_days: whole('How many days before its end a top-up is reported as expiring; 0 never', 14, 0, 365),
})

/** What the defaults of `accounts.sign_up` and `accounts.unverified` depend on. */
interface Reach {
  readonly server: { readonly host: string; readonly public_url?: string | undefined }
  readonly accounts: {
    readonly sign_up?: 'closed' | 'invite' | 'open' | undefined
    readonly unverified?: 'allow' | 'deny' | undefined
  }
}

/** Who may open an account, and whether unproven addresses get free credit, with the defaults filled in. */
export function signUpPolicy({ server, accounts }: Reach): {
  readonly signUp: 'closed' | 'invite' | 'open'
  readonly unverified: 'allow' | 'deny'
} {
  const alone = server.public_url === undefined && isLoopback(server.host)
  return {
    signUp: accounts.sign_up ?? (alone ? 'open' : 'invite'),
    unverified: accounts.unverified ?? (alone ? 'allow' : 'deny'),
  }
}

/** How people may sign in, beside the single sign-on. */
export function signInWays({ accounts }: { readonly accounts: z.output<typeof accountSettings> }) {
  const { sign_in: ways } = accounts
  return { passwords: ways.includes('password'), passkeys: ways.includes('passkey') }
}

/** What an account gets that an operator or the single sign-on opens. */
export function newcomerAllowances({ accounts }: { readonly accounts: z.output<typeof accountSettings> }) {
  return {
    monthlyCredit: usd(accounts.monthly_credit_usd),
    creditLine: parseCreditLine(accounts.credit_line) ?? 0n,
    group: accounts.group,
  }
}

export function isLoopback(host: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|::1|\[::1\])$/.test(host)
}
