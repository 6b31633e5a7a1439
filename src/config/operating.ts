// Settings of what a gateway tells those who run it: its request log elsewhere, and alarms.

import { z } from 'zod'
import { parseUsd } from '../credits/money.ts'
import { baseUrl, milliseconds, note, secret, section, usdAmount, usdText, whole } from './fields.ts'

/** An address that takes messages; it may hold a token in its path or its query. */
const hookUrl = z.string().refine(
  (text) => {
    const url = URL.parse(text)
    return (
      (url?.protocol === 'https:' || url?.protocol === 'http:') && url.username === '' && url.password === ''
    )
  },
  { error: 'must be an address such as https://example.org/hooks/weir, without a user and a password' },
)

export const logExportSettings = section({
  every_ms: milliseconds('How often rows of the request log are sent', 60_000, 100),
  batch_rows: whole('The most rows that are sent together', 5_000, 1, 100_000),
  s3: section({
    endpoint: note(
      baseUrl.optional(),
      'An S3-compatible store for the rows of the request log, such as https://s3.eu-central-1.amazonaws.com',
    ),
    bucket: note(
      z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/, 'must be the name of a bucket')
        .optional(),
      'The bucket that they are written to',
    ),
    region: note(z.string().min(1).max(64).default('us-east-1'), 'Its region, as requests are signed for it'),
    access_key: note(
      secret.optional(),
      'The access key: text, ${ENVIRONMENT_NAME} or file:/path; it needs no right but to write objects',
      { secret: true },
    ),
    secret_key: note(secret.optional(), 'Its secret', { secret: true }),
    prefix: note(
      z
        .string()
        .regex(/^[A-Za-z0-9_.~/-]{0,200}$/, 'must be letters, digits and _.~-/')
        .default('weir/requests'),
      'What the names of the objects begin with; the day follows',
    ),
  }),
  webhook: section({
    url: note(hookUrl.optional(), 'An address that takes rows of the request log, instead of a store'),
    secret: note(secret.optional(), 'What the messages are signed with, as those of webhooks', {
      secret: true,
    }),
  }),
})

const share = z.number().positive().max(1)

/** Monthly budgets of calendar months in UTC. */
const monthUsd = usdText.refine((text) => (parseUsd(text) ?? 0n) > 0n, { error: 'must be more than nothing' })

export const alarmSettings = section({
  mail: note(
    z.array(z.string().regex(/^[^\s@]+@[^\s@]+$/, 'must be an e-mail address')).default([]),
    'Addresses that are told when something is wrong, and when it is over; they need mail.smtp_url',
  ),
  webhook: section({
    url: note(hookUrl.optional(), 'An address that is told the same'),
    secret: note(secret.optional(), 'What the messages are signed with, as those of webhooks', {
      secret: true,
    }),
  }),
  every_ms: milliseconds('How often is looked whether something is wrong', 60_000, 100),
  provider_down_ms: milliseconds(
    'How long a provider must not have answered before that is told; 0 never',
    120_000,
    0,
  ),
  installation_month_usd: note(
    monthUsd.optional(),
    'What all calls of a calendar month (UTC) may cost, US dollars; nothing is refused for it',
  ),
  account_month_usd: note(monthUsd.optional(), 'The same for what each account spends'),
  shares: note(
    z.array(share).max(10).default([0.8, 1]),
    'The shares of these budgets that are told of, each once a month; groups have shares of their own (warn_at)',
  ),
  sudden_spend_factor: whole(
    'How many times what is usual at this hour, or on this day, of the week is told as sudden spending; 0 never',
    3,
    0,
    1_000,
  ),
  sudden_spend_least_usd: usdAmount('How much more than usual it must be', '10'),
  refusals_factor: whole(
    'How many times the refusals of the last day are told as rising; 0 never',
    5,
    0,
    1_000,
  ),
  refusals_least: whole('How many in a quarter of an hour there must be', 100, 1, 1_000_000),
  audit: note(
    z.boolean().default(true),
    'Whether each day is audited after its end, and audits that are not clean are told',
  ),
  disk_free_percent: whole(
    'How much of the disk must be free, percent, else that is told; 0 never',
    10,
    0,
    99,
  ),
  webhooks_waiting: whole(
    'How many messages to webhooks may wait before that is told; 0 for any',
    1_000,
    0,
    100_000,
  ),
})
